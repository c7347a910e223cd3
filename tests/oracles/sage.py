"""What was read in the code of the real system, and what ours does."""

import asyncio
import copy
import pickle
from typing import Any

from tests.oracles.outcomes import caught, raised
from tests.oracles.surface import public
from tests.oracles.table import Table

TABLE = Table()
# First cell of a row of the guide → scenarios, or places of the surface (dotted).
DIFFERENCES: dict[str, list[str]] = {}
# Of intellistream/SAGE, where `sage.libs.agents.action.mcp_registry` was read. The package
# isage-agentic 0.1.0.5 has the same class, but without a base class; its surface is below.
COMMIT = "2119a67d3fd9cc4c71e2b70937b0f353c4e2df81"
_SELF = ["self", "POSITIONAL_OR_KEYWORD", False]
SURFACE: dict[str, Any] = {
    "MCPRegistry": {
        "parameters": [],
        "members": {
            "register": [_SELF, ["tool_obj", "POSITIONAL_OR_KEYWORD", False]],
            "describe": [_SELF],
            "call": [
                _SELF,
                ["name", "POSITIONAL_OR_KEYWORD", False],
                ["arguments", "POSITIONAL_OR_KEYWORD", False],
            ],
            "execute": [_SELF, ["data", "POSITIONAL_OR_KEYWORD", True]],
        },
    }
}
WEATHER = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
}
TYPE_ERROR = {"raises": ["TypeError"]}
VALUE_ERROR = {"raises": ["ValueError"]}
KEY_ERROR = {"raises": ["KeyError", "LookupError"]}
ATTRIBUTE_ERROR = {"raises": ["AttributeError"]}


def names(side: str) -> Any:
    """Return the public names of a side."""
    return public("pegboard.compat.sage")


class Weather:
    """A tool as SAGE's users write one: four members and no base class."""

    name: Any = "weather"
    description: Any = "Tell the weather"
    input_schema: Any = WEATHER

    def call(self, arguments: Any) -> Any:
        return {"asked": arguments}


class Bare:
    """A tool with only what it must have."""

    def __init__(self, name: Any = "bare") -> None:
        self.name = name

    def call(self, arguments: Any) -> Any:
        return arguments


class Waiting(Bare):
    async def call(self, arguments: Any) -> Any:
        return arguments


class Stubborn(Bare):
    def __init__(self, error: BaseException) -> None:
        super().__init__("stubborn")
        self.error = error

    def call(self, arguments: Any) -> Any:
        raise self.error


class Shown(Bare):
    """A tool that makes its name, description and schema anew at each look."""

    def __init__(self) -> None:
        self.looks = 0

    @property
    def description(self) -> str:
        self.looks += 1
        return f"look {self.looks}"

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return "shown"


class Hidden(Bare):
    def __init__(self) -> None:
        pass

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        raise AttributeError("hidden")


class Locked(Hidden):
    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        raise PermissionError("locked")


class Static:
    """A class that is used as a tool without an instance."""

    name = "static"

    @staticmethod
    def call(arguments: Any) -> Any:
        return arguments


class Attributes(dict[str, Any]):
    """An object whose attributes are its items."""

    __getattr__ = dict.__getitem__


def filled(its: Any, *tools: Any) -> Any:
    """Return a registry of some tools."""
    registry = its.MCPRegistry()
    for tool in tools or (Weather(), Bare()):
        registry.register(tool)
    return registry


# Making a registry.


@TABLE.expects({})
def a_new_registry_describes_nothing(its: Any) -> Any:
    return its.MCPRegistry().describe()


@TABLE.expects(TYPE_ERROR)
def a_registry_takes_no_tools_at_once(its: Any) -> Any:
    return its.MCPRegistry([Weather()])


@TABLE.expects(TYPE_ERROR)
def a_registry_takes_no_unknown_option(its: Any) -> Any:
    return its.MCPRegistry(tools=[])


@TABLE.expects([["weather"], []])
def two_registries_share_nothing(its: Any) -> Any:
    return [list(it.describe()) for it in (filled(its, Weather()), its.MCPRegistry())]


# Registering.


@TABLE.expects(None)
def registering_returns_nothing(its: Any) -> Any:
    return its.MCPRegistry().register(Weather())


@TABLE.expects(["weather"])
def a_tool_is_registered_by_keyword(its: Any) -> Any:
    registry = its.MCPRegistry()
    registry.register(tool_obj=Weather())
    return list(registry.describe())


@TABLE.expects([TYPE_ERROR, {}])
def an_object_without_a_name_is_refused(its: Any) -> Any:
    class Nameless:
        def call(self, arguments: Any) -> Any:
            return arguments

    registry = its.MCPRegistry()
    return [caught(registry.register, Nameless()), registry.describe()]


@TABLE.expects([TYPE_ERROR, {}])
def an_object_without_a_call_is_refused(its: Any) -> Any:
    class Idle:
        name = "idle"

    registry = its.MCPRegistry()
    return [caught(registry.register, Idle()), registry.describe()]


@TABLE.expects([TYPE_ERROR] * 5)
def what_is_no_tool_at_all_is_refused(its: Any) -> Any:
    return [caught(its.MCPRegistry().register, it) for it in (None, 3, "weather", {}, [Weather()])]


@TABLE.expects(TYPE_ERROR)
def a_dict_with_a_name_and_a_call_is_no_tool(its: Any) -> Any:
    return caught(its.MCPRegistry().register, {"name": "it", "call": print})


@TABLE.expects(TYPE_ERROR)
def a_function_has_no_name_of_a_tool(its: Any) -> Any:
    return caught(its.MCPRegistry().register, lambda arguments: arguments)


@TABLE.expects(TYPE_ERROR)
def a_name_that_cannot_be_found_counts_as_absent(its: Any) -> Any:
    return caught(its.MCPRegistry().register, Hidden())


@TABLE.expects({"raises": ["PermissionError", "OSError"]})
def an_error_of_the_object_itself_comes_through(its: Any) -> Any:
    return caught(its.MCPRegistry().register, Locked())


@TABLE.expects(2)
def a_class_can_be_the_tool(its: Any) -> Any:
    return filled(its, Static).call("static", 2)


@TABLE.expects({"x": 1})
def an_object_with_attributes_of_its_own_making_is_a_tool(its: Any) -> Any:
    return filled(its, Attributes(name="made", call=lambda it: it)).call("made", {"x": 1})


@TABLE.expects(["same", 2])
def a_second_tool_of_the_same_name_replaces_the_first(its: Any) -> Any:
    first, second = Bare("same"), Bare("same")
    first.call, second.call = lambda arguments: 1, lambda arguments: 2
    registry = filled(its, first, second)
    return [*registry.describe(), registry.call("same", {})]


@TABLE.expects(["a", "b", "c"])
def a_replaced_tool_keeps_its_place(its: Any) -> Any:
    return list(filled(its, Bare("a"), Bare("b"), Bare("c"), Bare("a")).describe())


@TABLE.expects([{"x": 1}, {"x": 1}])
def one_object_can_be_registered_twice(its: Any) -> Any:
    tool = Bare("first")
    registry = filled(its, tool)
    tool.name = "second"
    registry.register(tool)
    return [registry.call(it, {"x": 1}) for it in registry.describe()]


@TABLE.expects(["", " ", "a b", "天气", "a.b/c:d", "x" * 600, "line\nbreak", "😀"])
def a_name_can_be_any_text(its: Any) -> Any:
    odd = ["", " ", "a b", "天气", "a.b/c:d", "x" * 600, "line\nbreak", "😀"]
    registry = filled(its, *map(Bare, odd))
    return [it for it in registry.describe() if registry.call(it, it) == it]


@TABLE.expects([1, 2, 3])
def a_name_need_not_be_text(its: Any) -> Any:
    registry = filled(its, Bare(7), Bare(None), Bare((1, 2)))
    return [registry.call(7, 1), registry.call(None, 2), registry.call((1, 2), 3)]


@TABLE.expects(TYPE_ERROR)
def a_name_that_cannot_be_a_key_is_refused(its: Any) -> Any:
    return caught(its.MCPRegistry().register, Bare(["a"]))


@TABLE.expects([None, TYPE_ERROR])
def a_call_that_cannot_be_called_fails_only_when_it_is_called(its: Any) -> Any:
    tool, registry = Bare(), its.MCPRegistry()
    tool.call = "not a function"  # pyright: ignore[reportAttributeAccessIssue]
    return [registry.register(tool), caught(registry.call, "bare", {})]


@TABLE.expects([{"type": "no such type"}, 1])
def a_schema_that_is_no_json_schema_is_taken_as_it_is(its: Any) -> Any:
    tool = Weather()
    tool.input_schema = {"type": "no such type"}
    registry = filled(its, tool)
    return [registry.describe()["weather"]["input_schema"], len(registry.call("weather", {}))]


# Describing.


@TABLE.expects(
    {
        "weather": {"description": "Tell the weather", "input_schema": WEATHER},
        "bare": {"description": "", "input_schema": {}},
    }
)
def each_tool_is_described_with_its_words_and_schema(its: Any) -> Any:
    return filled(its).describe()


@TABLE.expects([None, None])
def a_description_and_a_schema_of_none_stay_none(its: Any) -> Any:
    tool = Weather()
    tool.description = tool.input_schema = None
    return list(filled(its, tool).describe()["weather"].values())


@TABLE.expects([5, ["city"]])
def a_description_and_a_schema_of_other_types_are_shown_unchanged(its: Any) -> Any:
    tool = Weather()
    tool.description, tool.input_schema = 5, ["city"]
    return list(filled(its, tool).describe()["weather"].values())


@TABLE.expects([True, "dict"])
def the_schema_that_is_shown_is_the_tools_own_object(its: Any) -> Any:
    shown = filled(its, Weather()).describe()["weather"]["input_schema"]
    return [shown is WEATHER, type(shown).__name__]


@TABLE.expects([{"weather"}, {"weather", "extra"}])
def what_is_described_can_be_changed_without_harm(its: Any) -> Any:
    registry = filled(its, Weather())
    described = registry.describe()
    described["extra"] = {}
    described["weather"]["description"] = "changed"
    assert registry.describe()["weather"]["description"] == "Tell the weather"
    return [set(registry.describe()), set(described)]


@TABLE.expects([["description", "input_schema"]])
def a_description_has_two_members_and_no_others(its: Any) -> Any:
    class More(Weather):
        tags = ["sky"]
        output_schema = {"type": "object"}
        annotations = {"readOnlyHint": True}

    return [sorted(it) for it in filled(its, More()).describe().values()]


@TABLE.expects(["look 1", "look 2"])
def a_description_is_read_when_it_is_asked_for(its: Any) -> Any:
    registry = filled(its, Shown())
    return [registry.describe()["shown"]["description"] for _ in range(2)]


@TABLE.expects({"raises": ["ZeroDivisionError", "ArithmeticError"]})
def a_description_that_fails_comes_through(its: Any) -> Any:
    class Broken(Bare):
        @property
        def description(self) -> str:
            return str(1 / 0)

    return filled(its, Broken()).describe()


# A tool that changes after it was registered.


@TABLE.expects(["new words", {"type": "object"}])
def new_words_and_a_new_schema_are_seen(its: Any) -> Any:
    tool = Weather()
    registry = filled(its, tool)
    tool.description, tool.input_schema = "new words", {"type": "object"}
    return list(registry.describe()["weather"].values())


@TABLE.expects("new")
def a_new_call_is_run(its: Any) -> Any:
    tool = Bare()
    registry = filled(its, tool)
    tool.call = lambda arguments: "new"
    return registry.call("bare", {})


@TABLE.expects("of the class")
def a_new_method_of_the_class_is_run(its: Any) -> Any:
    class Changing(Bare):
        pass

    registry = filled(its, Changing())
    Changing.call = lambda self, arguments: "of the class"
    return registry.call("bare", {})


@TABLE.expects([["weather"], 1, KEY_ERROR])
def a_new_name_is_not_seen(its: Any) -> Any:
    tool = Weather()
    registry = filled(its, tool)
    tool.name = "climate"
    called = registry.call("weather", {})
    return [list(registry.describe()), len(called), caught(registry.call, "climate", {})]


@TABLE.expects(ATTRIBUTE_ERROR)
def a_call_that_was_taken_away_is_missed_at_the_call(its: Any) -> Any:
    class Losing(Static):
        @staticmethod
        def call(arguments: Any) -> Any:
            return arguments

    class Lost:
        name = "static"

    tool = Losing()
    registry = filled(its, tool)
    tool.__class__ = Lost  # pyright: ignore[reportAttributeAccessIssue]
    return registry.call("static", {})


# Calling.


@TABLE.expects({"asked": {"city": "Bern"}})
def a_tool_is_called_by_its_name(its: Any) -> Any:
    return filled(its).call("weather", {"city": "Bern"})


@TABLE.expects({"asked": {}})
def a_tool_is_called_by_keywords(its: Any) -> Any:
    return filled(its).call(name="weather", arguments={})


@TABLE.expects(TYPE_ERROR)
def a_call_needs_arguments(its: Any) -> Any:
    return filled(its).call("weather")


@TABLE.expects([True] * 6)
def the_arguments_reach_the_tool_as_the_same_object(its: Any) -> Any:
    registry, given = filled(its, Bare()), [{"x": 1}, None, 123, "text", [1], {}]
    return [registry.call("bare", it) is it for it in given]


@TABLE.expects({"asked": {"town": 5}})
def arguments_are_not_checked(its: Any) -> Any:
    return filled(its).call("weather", {"town": 5})


@TABLE.expects([KEY_ERROR] * 3)
def an_unknown_name_is_a_key_error(its: Any) -> Any:
    return [caught(filled(its).call, it, {}) for it in ("nope", "", "Weather")]


@TABLE.expects([KEY_ERROR, KEY_ERROR])
def an_unknown_name_that_is_no_text_is_a_key_error(its: Any) -> Any:
    return [caught(filled(its).call, it, {}) for it in (5, None)]


@TABLE.expects(TYPE_ERROR)
def a_name_that_cannot_be_a_key_cannot_be_called(its: Any) -> Any:
    return filled(its).call(["weather"], {})


@TABLE.expects(
    [
        [True, {"raises": ["KeyError", "LookupError"]}],
        [True, {"raises": ["ValueError"]}],
        [True, {"raises": ["StopIteration"]}],
        [True, {"raises": ["TimeoutError", "OSError"]}],
        [True, {"raises": ["KeyboardInterrupt"]}],
        [True, {"raises": ["GeneratorExit"]}],
    ]
)
def what_a_tool_raises_comes_through(its: Any) -> Any:
    found: list[Any] = []
    errors = (KeyError("x"), ValueError("x"), StopIteration(), TimeoutError(), KeyboardInterrupt())
    for error in (*errors, GeneratorExit()):
        try:
            filled(its, Stubborn(error)).call("stubborn", {})
        except BaseException as seen:
            found.append([seen is error, raised(seen)])
    return found


@TABLE.expects([None, 5, "text", (1, 2), {"output": 1}])
def what_a_tool_returns_comes_back_unchanged(its: Any) -> Any:
    values = [None, 5, "text", (1, 2), {"output": 1}]
    return [filled(its, Bare()).call("bare", it) for it in values]


@TABLE.expects({"x": 1})
def a_tool_that_waits_gives_a_coroutine(its: Any) -> Any:
    return asyncio.run(filled(its, Waiting()).call("bare", {"x": 1}))


@TABLE.expects({"x": 1})
async def a_tool_that_waits_is_awaited_by_its_caller(its: Any) -> Any:
    return await filled(its, Waiting()).call("bare", {"x": 1})


@TABLE.expects([0, 1, 4])
def a_tool_that_yields_gives_a_generator(its: Any) -> Any:
    tool = Bare()
    tool.call = lambda arguments: (it * it for it in range(arguments))
    return list(filled(its, tool).call("bare", 3))


@TABLE.expects({"asked": {"x": 1}})
def a_tool_can_call_another(its: Any) -> Any:
    tool = Bare()
    registry = filled(its, Weather(), tool)
    tool.call = lambda arguments: registry.call("weather", arguments)
    return registry.call("bare", {"x": 1})


@TABLE.expects(["bare", "late"])
def a_tool_can_register_another(its: Any) -> Any:
    tool = Bare()
    registry = filled(its, tool)
    tool.call = registry.register
    registry.call("bare", Bare("late"))
    return list(registry.describe())


@TABLE.expects([{"x": 1}, ["bare"]])
def a_registry_can_be_copied_and_pickled(its: Any) -> Any:
    registry = filled(its, Bare())
    copied = copy.deepcopy(registry)
    copied.register(Bare("other"))
    return [
        pickle.loads(pickle.dumps(registry)).call("bare", {"x": 1}),
        list(registry.describe()),
    ]


@TABLE.expects(["bare", 1])
def a_subclass_can_change_how_tools_are_called(its: Any) -> Any:
    class Counting(its.MCPRegistry):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0

        def call(self, name: str, arguments: Any) -> Any:
            self.calls += 1
            return super().call(name, arguments)

    registry = Counting()
    registry.register(Bare())
    registry.execute({"name": "bare"})
    return [*registry.execute(), registry.calls]


# Messages of a pipeline.


@TABLE.expects([["weather", "bare"]] * 6)
def messages_that_ask_for_the_tools(its: Any) -> Any:
    registry = filled(its)
    return [
        list(registry.execute()),
        *(
            list(registry.execute(it))
            for it in (None, "describe", {"op": "describe"}, {}, {"op": "describe", "foo": 1})
        ),
    ]


@TABLE.expects(["weather", "bare"])
def a_message_with_arguments_and_no_name_asks_for_the_tools(its: Any) -> Any:
    return list(filled(its).execute({"arguments": {"city": "Bern"}}))


@TABLE.expects([{"asked": {"city": "Bern"}}] * 4)
def messages_that_call_a_tool(its: Any) -> Any:
    message = {"name": "weather", "arguments": {"city": "Bern"}}
    ops: list[dict[str, Any]] = [{}, {"op": "call"}, {"op": None}, {"op": "describe"}]
    return [filled(its).execute({**it, **message}) for it in ops]


@TABLE.expects({"asked": {"x": 1}})
def a_message_is_given_by_keyword(its: Any) -> Any:
    return filled(its).execute(data={"name": "weather", "arguments": {"x": 1}})


@TABLE.expects({"asked": {}})
def a_message_without_arguments_calls_with_none(its: Any) -> Any:
    return filled(its).execute({"name": "weather"})


@TABLE.expects({"asked": {}})
def a_message_to_describe_one_tool_calls_it(its: Any) -> Any:
    return filled(its).execute({"op": "describe", "name": "weather"})


@TABLE.expects([VALUE_ERROR] * 6)
def an_unknown_op_is_a_value_error(its: Any) -> Any:
    registry, message = filled(its), {"name": "weather", "arguments": {}}
    ops: list[Any] = ["delete", "CALL", "", 5, [], {}]
    return [caught(registry.execute, {"op": it, **message}) for it in ops]


@TABLE.expects(VALUE_ERROR)
def an_unknown_op_without_a_name_is_a_value_error(its: Any) -> Any:
    return filled(its).execute({"op": "delete"})


@TABLE.expects([VALUE_ERROR] * 6)
def a_call_needs_a_name_that_is_a_text(its: Any) -> Any:
    messages: list[Any] = [
        {"op": "call"},
        {"op": None},
        {"op": "call", "arguments": {}},
        {"name": ""},
        {"name": None},
        {"name": 5, "arguments": {}},
    ]
    return [caught(filled(its).execute, it) for it in messages]


@TABLE.expects([TYPE_ERROR] * 4)
def arguments_that_are_no_dict_are_a_type_error(its: Any) -> Any:
    given: list[Any] = [None, 123, [], "text"]
    return [caught(filled(its).execute, {"name": "weather", "arguments": it}) for it in given]


@TABLE.expects(VALUE_ERROR)
def a_bad_op_is_told_before_bad_arguments(its: Any) -> Any:
    return filled(its).execute({"op": "delete", "name": "weather", "arguments": 1})


@TABLE.expects(VALUE_ERROR)
def a_bad_name_is_told_before_bad_arguments(its: Any) -> Any:
    return filled(its).execute({"name": "", "arguments": 1})


@TABLE.expects([TYPE_ERROR] * 7)
def messages_of_other_types_are_a_type_error(its: Any) -> Any:
    messages: list[Any] = [[], 3, "call", "weather", "", True, ("weather", {})]
    return [caught(filled(its).execute, it) for it in messages]


@TABLE.expects(KEY_ERROR)
def a_message_can_name_no_unknown_tool(its: Any) -> Any:
    return filled(its).execute({"name": "nope", "arguments": {}})


@TABLE.expects([True, True, True, True])
def the_words_of_an_error_name_what_is_wrong(its: Any) -> Any:
    def words(message: Any) -> str:
        try:
            return str(filled(its).execute(message))
        except (TypeError, ValueError) as error:
            return str(error)

    return [
        "Unsupported op" in words({"op": "delete", "name": "weather"}),
        "Missing or invalid 'name'" in words({"op": "call"}),
        "'arguments' must be a dict" in words({"name": "weather", "arguments": 1}),
        "expects None/'describe' or a dict" in words([]),
    ]


# The base class that earlier releases had.


@TABLE.expects([ATTRIBUTE_ERROR] * 3)
def outside_a_pipeline_there_is_no_logger_and_no_service(its: Any) -> Any:
    registry = its.MCPRegistry()
    return [
        caught(lambda: registry.logger),
        caught(lambda: registry.name),
        caught(lambda: registry.call_service("memory")),
    ]
