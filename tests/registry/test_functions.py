import dataclasses
import datetime
import enum
import functools
import math
from pathlib import Path
from typing import Annotated, Any, Literal, Optional

import pydantic
import pytest
from pydantic import Field
from typing_extensions import TypedDict

from pegboard import (
    Annotations,
    FunctionTool,
    InvalidArgumentsError,
    InvalidToolError,
    Registry,
    Tool,
    ToolCall,
    ToolResult,
    tool,
)


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(enum.StrEnum):
    S = "s"


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Options(TypedDict, total=False):
    depth: int


class User(pydantic.BaseModel):
    name: str = Field(min_length=1)
    friends: list["User"] = []


def call(function: Any, arguments: dict[str, Any]) -> Any:
    registry = Registry()
    registered = registry.register(function)
    return registry.call(registered.name, arguments)


def properties(function: Any) -> dict[str, Any]:
    return dict(FunctionTool.of(function).input_schema["properties"])


def test_the_whole_definition_comes_from_signature_and_docstring() -> None:
    @tool(tags=["math"], category="numbers", annotations=Annotations(read_only=True))
    def scale(
        value: float,
        factor: Annotated[int, "How much larger"] = 2,
        mode: Literal["up", "down"] = "up",
        note: str | None = None,
    ) -> float:
        """Scale a value.

        Works for everything.

        Args:
            value: What to scale.
            mode: Which way.
                It may be long.

        Returns:
            The scaled value.
        """
        return value * factor

    assert scale.definition == Tool(
        name="scale",
        description="Scale a value.\n\nWorks for everything.",
        input_schema={
            "type": "object",
            "properties": {
                "value": {"type": "number", "description": "What to scale."},
                "factor": {"type": "integer", "description": "How much larger", "default": 2},
                "mode": {
                    "enum": ["up", "down"],
                    "type": "string",
                    "default": "up",
                    "description": "Which way.\nIt may be long.",
                },
                "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
            },
            "required": ["value"],
            "additionalProperties": False,
        },
        output_schema={"type": "number"},
        annotations=Annotations(read_only=True),
        tags=("math",),
        category="numbers",
    )
    assert vars(scale)["__name__"] == "scale"
    assert scale(2.0) == 4.0


@pytest.mark.parametrize(
    "docstring",
    [
        "Do it.\n\n:param x: the x\n:returns: nothing",
        "Do it.\n\nParameters\n----------\nx : int\n    the x\n",
        "Do it.\n\nArgs:\n    x (int): the x\n",
    ],
    ids=["reST", "NumPy", "Google"],
)
def test_docstrings_of_every_style_describe_parameters(docstring: str) -> None:
    def do(x: int) -> None: ...

    do.__doc__ = docstring
    found = FunctionTool.of(do)
    assert found.description == "Do it."
    assert found.input_schema["properties"]["x"]["description"] == "the x"


def test_a_docstring_without_sections_is_kept_whole() -> None:
    def do() -> None:
        """First line.

        - a list: with colons
        - and more
        """

    assert FunctionTool.of(do).description == "First line.\n\n- a list: with colons\n- and more"


@pytest.mark.parametrize(
    ("annotation", "given", "received"),
    [
        (int, 2, 2),
        (int, 2.0, 2),
        (float, 2, 2.0),
        (bool, True, True),
        (str, "a", "a"),
        (Any, {"a": [1]}, {"a": [1]}),
        (Optional[int], None, None),  # noqa: UP045
        (int | None, 3.0, 3),
        (float | None, 3, 3.0),
        (int | str, "a", "a"),
        (Literal["a", "b"], "a", "a"),
        (Literal[1, 2], 1, 1),
        (Literal[Size.S], "s", Size.S),
        (Colour, "red", Colour.RED),
        (list[Colour], ["red", "blue"], [Colour.RED, Colour.BLUE]),
        (list[int], [1, 2.0], [1, 2]),
        (list[str], ["a"], ["a"]),
        (dict[str, int], {"a": 1}, {"a": 1}),
        (dict[str, list[Point]], {"a": [{"x": 1}]}, {"a": [Point(1)]}),
        (tuple[int, str], [1, "a"], (1, "a")),
        (set[int], [1, 2], {1, 2}),
        (Point, {"x": 1}, Point(1, 0)),
        (Options, {"depth": 3}, {"depth": 3}),
        (User, {"name": "a", "friends": [{"name": "b"}]}, User(name="a", friends=[User(name="b")])),
        (Point | None, {"x": 1}, Point(1)),
        (datetime.date, "2026-01-02", datetime.date(2026, 1, 2)),
        (Path, "a/b", Path("a/b")),
        (Annotated[int, Field(gt=0)], 3, 3),
        (Annotated[str, pydantic.AfterValidator(str.upper)], "a", "A"),
    ],
    ids=str,
)
def test_json_becomes_the_type_the_function_asks_for(
    annotation: Any, given: Any, received: Any
) -> None:
    def take(value) -> Any:
        return value

    take.__annotations__["value"] = annotation
    answer = call(take, {"value": given})
    assert answer == received
    assert type(answer) is type(received)


@pytest.mark.parametrize(
    ("annotation", "bad", "path"),
    [
        (int, "x", "value"),
        (int, 2.5, "value"),
        (Colour, "green", "value"),
        (Point, {"y": 1}, "value"),
        (list[Point], [{"x": 1}, {"x": "a"}], "value[1].x"),
        (User, {"name": ""}, "value.name"),
        (Options, {"depth": "deep"}, "value.depth"),
        (Annotated[int, Field(gt=0)], 0, "value"),
    ],
    ids=str,
)
def test_values_of_the_wrong_type_are_refused_with_their_path(
    annotation: Any, bad: Any, path: str
) -> None:
    def take(value) -> None:
        raise AssertionError("it ran")

    take.__annotations__["value"] = annotation
    with pytest.raises(InvalidArgumentsError) as refused:
        call(take, {"value": bad})
    assert [it.path for it in refused.value.violations] == [path]


def test_what_only_python_can_check_is_refused_in_the_same_way() -> None:
    def even(number: int) -> int:
        if number % 2:
            raise ValueError("must be even")
        return number

    def take(number: Annotated[int, pydantic.AfterValidator(even)], user: User) -> int:
        return number

    assert call(take, {"number": 2, "user": {"name": "a"}}) == 2
    with pytest.raises(InvalidArgumentsError, match=r"`number`.*must be even"):
        call(take, {"number": 3, "user": {"name": "a"}})


def test_defaults_of_any_type_reach_the_function() -> None:
    def take(
        colour: Colour = Colour.BLUE,
        point: Point = Point(1),
        size: int = Field(default=3, ge=1, description="How big"),
        items: list[int] = Field(default_factory=lambda: [1]),
        odd: Any = object(),
    ) -> tuple[Any, ...]:
        return colour, point, size, items, type(odd)

    assert call(take, {}) == (Colour.BLUE, Point(1), 3, [1], object)
    assert properties(take)["colour"]["default"] == "blue"
    assert properties(take)["point"]["default"] == {"x": 1, "y": 0}
    assert properties(take)["size"] == {
        "type": "integer",
        "minimum": 1,
        "description": "How big",
        "default": 3,
    }
    registry = Registry(validation=None)
    registry.register(take)
    assert registry.call("take") == (Colour.BLUE, Point(1), 3, [1], object)


async def test_defaults_that_json_does_not_have_reach_the_function_as_they_are() -> None:
    def take(
        path: Any = Path("a"),
        pair: Any = (1, 2),
        limit: float = math.inf,
        key: pydantic.SecretStr = pydantic.SecretStr("hidden"),
        number: float = 1,
        new: str = Field(default_factory=lambda: str(next(counter))),
    ) -> tuple[Any, ...]:
        return path, pair, limit, key.get_secret_value(), type(number), new

    async def plain(number: float = 1) -> type:
        return type(number)

    counter = iter(range(100, 200))
    registry = Registry()
    registry.register_many([take, plain])
    first, second = registry.call("take"), registry.call("take")
    assert first[:-1] == (Path("a"), (1, 2), math.inf, "hidden", int)
    assert first[-1] != second[-1]
    assert [await registry.acall("plain", {}) for _ in range(3)] == [int] * 3


def test_strict_models_take_json() -> None:
    class Strict(pydantic.BaseModel, strict=True):
        when: datetime.date
        pair: tuple[int, int]

    def take(it: Strict) -> Any:
        return it.when, it.pair

    given = {"it": {"when": "2026-01-02", "pair": [1, 2]}}
    assert call(take, given) == (datetime.date(2026, 1, 2), (1, 2))


def test_the_rest_of_the_arguments_is_checked_too() -> None:
    def take(**rest: int) -> dict[str, int]:
        return rest

    assert call(take, {"a": 1}) == {"a": 1}
    with pytest.raises(InvalidArgumentsError):
        call(take, {"a": "x"})


@pytest.mark.parametrize("kind", ["unhashable", "bad pattern", "hostile type", "odd docstring"])
def test_whatever_goes_wrong_while_a_function_is_looked_at_is_an_invalid_tool(kind: str) -> None:
    class Hostile:
        @classmethod
        def __get_pydantic_core_schema__(cls, *_: Any) -> Any:
            raise LookupError("mine")

    def take(value) -> None: ...

    annotations: dict[str, Any] = {
        "unhashable": Annotated[int, ["note"]],
        "bad pattern": Annotated[str, Field(pattern="(")],
        "hostile type": Hostile,
        "odd docstring": int,
    }
    take.__annotations__["value"] = annotations[kind]
    if kind == "odd docstring":
        setattr(take, "__doc__", 3)  # noqa: B010
    registry = Registry()
    report = registry.register_many([take], on_error="report")
    if kind in {"unhashable", "odd docstring"}:
        assert registry.call("take", {"value": 1}) is None
    else:
        assert [type(it.error) for it in report.rejected] == [InvalidToolError]


def test_two_models_of_the_same_name_are_kept_apart() -> None:
    def make(annotation: Any) -> Any:
        return pydantic.create_model("Item", value=(annotation, ...))

    first, second = make(int), make(str)

    def take(a, b) -> Any:
        return a.value, b.value

    take.__annotations__.update(a=first, b=second)
    assert call(take, {"a": {"value": 1}, "b": {"value": "x"}}) == (1, "x")
    with pytest.raises(InvalidArgumentsError):
        call(take, {"a": {"value": "x"}, "b": {"value": "x"}})


def test_the_call_itself_can_be_injected_and_stays_out_of_the_schema() -> None:
    def take(text: str, context: ToolCall, times: int = 2) -> str:
        return f"{text * times} {context.tool.name} {context.meta['user']}"

    async def atake(context: ToolCall | None = None) -> Any:
        assert context is not None
        return context.arguments

    registry = Registry()
    registry.register_many([take, atake])
    assert set(properties(take)) == {"text", "times"}
    assert registry.call("take", {"text": "a"}, meta={"user": "u"}) == "aa take u"
    assert registry.call("atake") == {}
    with pytest.raises(InvalidArgumentsError, match="unknown argument `context`"):
        registry.call("take", {"text": "a", "context": {}})


def test_keyword_and_positional_only_parameters_and_open_ends_work() -> None:
    def take(a: int, /, b: int, *, c: int = 3, **rest: Any) -> tuple[Any, ...]:
        return a, b, c, rest

    assert call(take, {"a": 1, "b": 2, "d": 4}) == (1, 2, 3, {"d": 4})
    assert "additionalProperties" not in FunctionTool.of(take).input_schema


def test_positional_only_parameters_keep_their_places_without_validation() -> None:
    def take(a: int = 1, b: int = 2, /, c: int = 3) -> tuple[int, ...]:
        return a, b, c

    registry = Registry(validation=None)
    registry.register(take)
    assert registry.call("take", {"b": 5}) == (1, 5, 3)


def test_the_call_may_be_positional_only_or_described_but_not_taken_twice() -> None:
    def first(call: ToolCall, /, a: int) -> tuple[str, int]:
        return call.tool.name, a

    def described(call: Annotated[ToolCall, "the call"], a: int) -> tuple[str, int]:
        return call.tool.name, a

    def twice(one: ToolCall, two: ToolCall) -> None: ...

    assert call(first, {"a": 1}) == ("first", 1)
    assert call(described, {"a": 1}) == ("described", 1)
    with pytest.raises(InvalidToolError, match="takes the call twice"):
        FunctionTool.of(twice)


async def test_a_number_too_large_for_a_float_is_refused() -> None:
    async def take(value: float) -> float:
        return value

    registry = Registry()
    registry.register(take)
    for _ in range(2):
        with pytest.raises(InvalidArgumentsError) as refused:
            await registry.acall("take", {"value": 10**400})
        assert [it.path for it in refused.value.violations] == ["value"]


def test_a_renamed_tool_is_named_in_its_errors() -> None:
    def known(colour: str) -> Colour:
        return Colour(colour)

    def take(colour: Annotated[str, pydantic.AfterValidator(known)]) -> None: ...

    registry = Registry()
    registry.register(take)
    registry.register(take, on_conflict="rename")
    with pytest.raises(InvalidArgumentsError) as refused:
        registry.call("take_2", {"colour": "green"})
    assert refused.value.tool == "take_2"


def test_a_schema_is_written_as_its_annotation_is() -> None:
    def one(x: int | str) -> None: ...

    def two(x: str | int) -> None: ...

    assert [it["type"] for it in properties(one)["x"]["anyOf"]] == ["integer", "string"]
    assert [it["type"] for it in properties(two)["x"]["anyOf"]] == ["string", "integer"]


def test_methods_partials_and_callable_objects_are_functions_too() -> None:
    class Counter:
        def __init__(self) -> None:
            self.total = 0

        def count(self, by: int) -> int:
            """Count on."""
            self.total += by
            return self.total

    class Doubler:
        async def __call__(self, n: int) -> int:
            return 2 * n

    def power(base: int, exponent: int) -> int:
        return base**exponent

    registry = Registry()
    counter = Counter()
    registry.register(counter.count)
    assert (
        FunctionTool.of(functools.partial(counter.count), name="partial").description == "Count on."
    )
    registry.register(tool(name="double")(Doubler()))
    registry.register(tool(name="square")(functools.partial(power, exponent=2)))
    assert registry.call("count", {"by": 3}) == 3
    assert registry.call("double", {"n": 4}) == 8
    assert registry.call("square", {"base": 3}) == 9


class Service:
    def __init__(self, greeting: str) -> None:
        self.greeting = greeting

    @tool
    def greet(self, name: str) -> str:
        """Greet a person."""
        return f"{self.greeting} {name}"

    def plain(self, name: str) -> str:
        return name

    @classmethod
    @tool
    def make(cls, name: str) -> str:
        """Make one."""
        return f"{cls.__name__} {name}"

    @staticmethod
    @tool
    def help(name: str) -> str:
        return name


def test_a_decorated_method_is_registered_from_an_instance() -> None:
    first, second = Service("Hello"), Service("Goodbye")
    registry = Registry()
    registry.register(first.greet)
    registry.register(second.greet, on_conflict="rename")
    assert set(registry.get("greet").input_schema["properties"]) == {"name"}
    assert registry.call("greet", {"name": "Ada"}) == "Hello Ada"
    assert registry.call("greet_2", {"name": "Ada"}) == "Goodbye Ada"
    assert first.greet("Ada") == "Hello Ada"
    above: Any = classmethod(Service.plain)  # pyright: ignore[reportArgumentType]
    registry.register(Service.make)
    registry.register(Service.help)
    assert set(registry.get("make").input_schema["properties"]) == {"name"}
    assert registry.call("make", {"name": "x"}) == "Service x"
    assert registry.call("help", {"name": "x"}) == "x"
    with pytest.raises(InvalidToolError, match="below `@classmethod`"):
        tool(above)
    with pytest.raises(InvalidToolError, match=r"register\(tool\(name=\.\.\.\)\(it\)\)"):
        registry.register(functools.partial(max, 1))
    for unbound in (Service.greet, Service.plain):
        with pytest.raises(InvalidToolError, match=r"register it from an instance"):
            registry.register(unbound)


def test_an_object_may_say_more_of_itself_and_unrelated_attributes_mean_nothing() -> None:
    class Full:
        name = "full"
        annotations = Annotations(idempotent=True)
        tags = ["a", "b"]
        category = "c"

        def call(self, arguments: dict[str, Any]) -> None: ...

    class Odd(Full):
        name = "odd"
        annotations = {"idempotent": True}
        tags = [1]
        category = 3

    registry = Registry()
    full, odd = registry.register(Full()), registry.register(Odd())
    assert (full.annotations.idempotent, full.tags, full.category) == (True, ("a", "b"), "c")
    assert (odd.annotations, odd.tags, odd.category) == (Annotations(), (), None)


def test_an_unknown_option_of_the_decorator_is_refused_and_says_where_hints_go() -> None:
    with pytest.raises(TypeError, match=r"annotations=Annotations\(idempotent=True\)"):
        tool(idempotent=True)  # pyright: ignore[reportCallIssue]


def test_string_annotations_are_understood() -> None:
    def take(point: "Point") -> "int":
        return point.x

    assert call(take, {"point": {"x": 4}}) == 4


def test_the_output_schema_says_what_comes_back() -> None:
    def point() -> Point: ...  # pyright: ignore[reportReturnType]

    def nothing() -> None: ...

    def whole() -> ToolResult: ...  # pyright: ignore[reportReturnType]

    def unknown() -> object: ...

    class Opaque:
        pass

    def opaque() -> Opaque: ...  # pyright: ignore[reportReturnType]

    output = FunctionTool.of(point).definition.output_schema
    assert output is not None
    assert output["properties"]["x"]["type"] == "integer"
    for function in (nothing, whole, opaque):
        assert FunctionTool.of(function).definition.output_schema is None
    assert not FunctionTool.of(unknown).definition.output_schema


class Unknown:
    pass


def test_signatures_that_cannot_be_tools_are_refused_in_words() -> None:
    def star(*args: int) -> None: ...

    def opaque(x: Unknown) -> None: ...

    def undefined(x: "Missing") -> None: ...  # noqa: F821  # pyright: ignore[reportUndefinedVariable]

    for function, words in [
        (star, r"\*args"),
        (opaque, "'x' of tool 'opaque'"),
        (undefined, "'undefined'.*Missing"),
        (lambda: 1, "lambda"),
    ]:
        registry = Registry()
        with pytest.raises(InvalidToolError, match=words):
            registry.register(function)
        assert len(registry) == 0
    with pytest.raises(InvalidToolError, match="has no name"):
        tool(functools.partial(star))
    with pytest.raises(InvalidToolError, match="cannot be read"):
        Registry().register(max)
