import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from pegboard import (
    InvalidArgumentsError,
    Registry,
    Tool,
    ToolCall,
    ToolConflictError,
    ToolNotFoundError,
    ToolResult,
    tool,
)
from pegboard.toolsets import Toolset
from pegboard.toolsets import model_arguments as nulls
from tests.toolsets.schemas import LEGAL_ROOTS, NAMES, SEVERAL_ARGUMENTS, STRINGS, objects


class Echo:
    """Answers with its arguments."""

    def __init__(self, name: str, schema: dict[str, Any] | None = None) -> None:
        self.name = name
        self.description = f"The tool {name}."
        self.input_schema = schema or {}

    def call(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return {"tool": self.name, "arguments": arguments}


def board() -> Registry:
    registry = Registry()
    registry.register_many(
        [
            Tool(name="fs_read", server="fs", tags=("read",), category="files"),
            Tool(name="fs_write", server="fs", tags=("write", "disk"), category="files"),
            Tool(name="web_get", server="web", tags=("read",)),
            Tool(name="local"),
        ]
    )
    return registry


@pytest.mark.parametrize(
    ("selection", "names"),
    [
        ({}, ["fs_read", "fs_write", "web_get", "local"]),
        ({"servers": ["fs"]}, ["fs_read", "fs_write"]),
        ({"servers": []}, []),
        ({"tags": ["disk", "nothing"]}, ["fs_write"]),
        ({"categories": {"files"}}, ["fs_read", "fs_write"]),
        ({"include": ["fs_*", "local"]}, ["fs_read", "fs_write", "local"]),
        ({"include": ["fs_*"], "exclude": ["*_write"]}, ["fs_read"]),
        ({"where": lambda tool: tool.server is None}, ["local"]),
        ({"rename": {"local": "here"}}, ["fs_read", "fs_write", "web_get", "here"]),
        ({"servers": ["fs"], "rename": lambda tool: tool.name[3:]}, ["read", "write"]),
        ({"servers": ["fs"], "prefix": "my_"}, ["my_fs_read", "my_fs_write"]),
        ({"include": ["local"], "rename": {"local": "here"}, "prefix": "over_"}, ["over_here"]),
    ],
)
def test_a_view_shows_what_was_chosen_under_the_chosen_names(
    selection: dict[str, Any], names: list[str]
) -> None:
    tools = Toolset(board(), **selection)
    assert list(tools.names) == names
    assert [it.name for it in tools] == [it.name for it in tools.tools()] == names
    assert len(tools) == len(names)
    assert all(name in tools for name in names)
    assert "elsewhere" not in tools


def test_a_view_can_be_narrowed_by_the_names_it_shows() -> None:
    files = Toolset(board(), servers=["fs"], rename={"fs_read": "read"}, prefix="my_")
    narrower = files.select(include=["my_r*"], prefix="very_")
    assert narrower.names == ("very_my_read",)
    assert files.names == ("my_read", "my_fs_write")


def test_a_view_follows_the_registry() -> None:
    registry = board()
    tools = Toolset(registry, servers=["fs"])
    registry.unregister("fs_write")
    registry.register(Tool(name="fs_stat", server="fs"))
    registry.register(Tool(name="fs_read", server="fs", description="New."), on_conflict="override")
    assert {it.name: it.description for it in tools} == {"fs_read": "New.", "fs_stat": ""}
    assert tools.openai()[0]["function"]["description"] == "New."
    registry.register(Tool(name="fs_hidden", server="fs"), groups=["off"])
    registry.disable_group("off")
    assert "fs_hidden" not in tools


@pytest.mark.parametrize(
    "selection",
    [{"servers": "fs"}, {"tags": "a"}, {"include": "fs_*"}, {"rename": 3}, {"srvers": ["fs"]}],
)
def test_a_malformed_selection_is_refused_at_once(selection: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        Toolset(board(), **selection)


def test_two_tools_under_one_name_are_refused_by_name() -> None:
    tools = Toolset(board(), rename=lambda it: it.server or it.name)
    with pytest.raises(ToolConflictError, match="'fs_read' and 'fs_write'") as raised:
        tools.tools()
    assert raised.value.name == "fs"


async def test_a_newcomer_does_not_cost_a_view_the_tool_that_has_its_name(
    caplog: pytest.LogCaptureFixture,
) -> None:
    registry = Registry()
    registry.register(Echo("c"))
    tools = Toolset(registry, rename={"b": "n", "c": "n", "d": "n"})
    [function], [before] = tools.functions(), tools.openai()
    registry.register(Echo("d"))
    assert tools.names == ("n",)
    assert tools.openai() == [before]
    assert repr(tools) == "<Toolset of 1 tools>"
    assert list(tools.skipped) == ["d"]
    assert "'c'" in tools.skipped["d"]
    assert caplog.text.count("tool_skipped") == 1
    registry.register(Echo("c", {"type": "object"}), on_conflict="override")
    assert tools.call_sync("n").value()["tool"] == "c"
    assert (await function())["tool"] == "c"
    registry.unregister("c")
    assert tools.call_sync("n").value()["tool"] == "d"
    assert tools.skipped == {}
    with pytest.raises(ToolNotFoundError):
        await function()


def test_of_newcomers_that_want_one_name_the_first_gets_it() -> None:
    registry = Registry()
    tools = Toolset(registry, rename={"b": "n", "c": "n"})
    assert tools.names == ()
    registry.register_many([Echo("b"), Echo("c"), Echo("z")])
    assert tools.names == ("n", "z")
    assert tools.call_sync("n").value()["tool"] == "b"
    assert list(tools.skipped) == ["c"]


async def test_a_tool_is_called_by_the_name_of_the_view() -> None:
    registry = Registry()
    registry.register(Echo("fs.read"))
    tools = Toolset(registry, rename={"fs.read": "read"})
    result = await tools.call("read", {"a": 1})
    assert isinstance(result, ToolResult)
    assert result.value() == {"tool": "fs.read", "arguments": {"a": 1}}
    assert (await tools.call("read")).value()["arguments"] == {}
    assert tools.call_sync("read", {"a": 2}).value()["arguments"] == {"a": 2}


async def test_what_belongs_to_the_call_travels_with_it() -> None:
    registry = Registry()

    @tool
    def whose(call: ToolCall) -> str:
        return call.meta["user"]

    registry.register(whose)
    tools = Toolset(registry, rename={"whose": "mine"})
    assert (await tools.call("mine", meta={"user": "ada"})).value() == "ada"
    assert tools.call_sync("mine", {}, {"user": "bob"}).value() == "bob"


async def test_what_is_outside_of_the_view_is_not_found() -> None:
    tools = Toolset(board(), servers=["fs"])
    for name in ("local", "fs_raed", 3, None, ["fs_read"]):
        with pytest.raises(ToolNotFoundError):
            await tools.call(name)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ToolNotFoundError) as raised:
        tools.call_sync("fs_raed")
    assert raised.value.nearest[0] == "fs_read"
    assert "local" not in raised.value.nearest


ODD_NAMES = ["read.file", "read file", "read_file", "9lives", "-x", "größe", "x" * 100, "1.2"]


async def test_names_that_providers_refuse_are_replaced_and_lead_back() -> None:
    registry = Registry()
    for name in ODD_NAMES:
        registry.register(Echo(name))
    tools = Toolset(registry)
    given = [definition["name"] for definition in tools.anthropic()]
    assert given == [definition["name"] for definition in tools.gemini()]
    assert given == [definition["function"]["name"] for definition in tools.openai()]
    assert len(set(given)) == len(ODD_NAMES)
    assert given[2] == "read_file"
    assert given[3] == "_9lives"
    for name, provided in zip(ODD_NAMES, given, strict=True):
        assert (await tools.call(provided)).value()["tool"] == name
        assert (await tools.call(name)).value()["tool"] == name


async def test_a_name_given_to_a_model_stays_valid_when_others_come_and_go() -> None:
    registry = Registry()
    registry.register(Echo("a.b"))
    tools = Toolset(registry)
    [before] = (it["name"] for it in tools.anthropic())
    registry.register_many([Echo("a_b"), Echo("a-b"), Echo("a b")])
    assert tools.anthropic()[0]["name"] == before
    registry.unregister("a.b")
    with pytest.raises(ToolNotFoundError) as raised:
        await tools.call(before)
    assert raised.value.name == before
    registry.register(Echo("a.b"))
    assert tools.anthropic()[-1]["name"] == before
    assert (await tools.call(before)).value()["tool"] == "a.b"


@pytest.mark.parametrize("names", [["1a", "_1a"], ["_1a", "1a"]])
def test_a_name_made_for_a_provider_is_never_that_of_another_tool(names: list[str]) -> None:
    registry = Registry()
    registry.register_many([Echo(name) for name in names])
    tools = Toolset(registry)
    given = [it["name"] for it in tools.anthropic()]
    assert given[names.index("_1a")] == "_1a"
    for name, provided, function in zip(names, given, tools.sync_functions(), strict=True):
        assert tools.call_sync(name).value()["tool"] == name
        assert tools.call_sync(provided).value()["tool"] == name
        assert function()["tool"] == name
    registry.unregister("1a")
    assert tools.call_sync("_1a").value()["tool"] == "_1a"


@pytest.mark.parametrize("odd", ["weather.x", "1a"])
async def test_a_tool_that_comes_later_is_called_by_its_own_name(odd: str) -> None:
    registry = Registry()
    registry.register(Echo(odd))
    tools = Toolset(registry)
    [function] = tools.functions()
    [before] = (it["name"] for it in tools.anthropic())
    registry.register(Echo(before))
    assert tools.call_sync(before).value()["tool"] == before
    first, second = (it["name"] for it in tools.anthropic())
    assert first != second == before
    assert (await tools.call(first)).value()["tool"] == odd
    assert (await function())["tool"] == odd
    registry.unregister(odd)
    assert tools.call_sync(before).value()["tool"] == before


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.booleans(), st.sampled_from(["1a", "_1a", "a.b", "a_b", "-x", "_-x"])),
        max_size=20,
    )
)
def test_every_name_leads_to_its_own_tool_whatever_comes_and_goes(
    steps: list[tuple[bool, str]],
) -> None:
    registry = Registry()
    tools = Toolset(registry)
    for comes, name in steps:
        if comes and name not in registry:
            registry.register(Echo(name))
        elif not comes and name in registry:
            registry.unregister(name)
        provided = [it["name"] for it in tools.anthropic()]
        assert len(set(provided)) == len(tools)
        for own, other, function in zip(tools.names, provided, tools.sync_functions(), strict=True):
            assert tools.call_sync(own).value()["tool"] == own
            assert tools.call_sync(other).value()["tool"] == own
            assert function()["tool"] == own


async def test_a_function_never_leaves_its_view() -> None:
    registry = Registry()
    registry.register(Tool(name="read", tags=("safe",)))
    [read] = Toolset(registry, tags=["safe"]).functions()
    registry.register(Echo("read"), on_conflict="override")
    with pytest.raises(ToolNotFoundError):
        await read()


async def test_illegal_property_names_are_replaced_and_lead_back() -> None:
    names = ["filter[id]", "$top", "plain", "max-size"]
    inner = {"type": "object", "properties": {"a b": {"type": "integer"}}, "required": ["a b"]}
    schema = {
        "type": "object",
        "properties": {**{name: {"type": "string"} for name in names}, "deep": inner},
        "required": ["$top"],
        "additionalProperties": False,
    }
    registry = Registry()
    registry.register(Echo("odd", schema))
    tools = Toolset(registry)
    [anthropic], [gemini] = tools.anthropic(), tools.gemini()
    for root in (anthropic["input_schema"], gemini["parameters"]):
        given = dict(zip(list(root["properties"]), ["1", "2", "3", "4"], strict=False))
        [nested] = root["properties"]["deep"]["properties"]
        result = await tools.call("odd", {**given, "deep": {nested: 5}})
        assert result.value()["arguments"] == {
            **dict(zip(names, ["1", "2", "3", "4"], strict=True)),
            "deep": {"a b": 5},
        }
        assert root["required"] == [list(root["properties"])[1]]
    assert "max-size" in anthropic["input_schema"]["properties"]


NULLS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "must": {"type": "string"},
        "may": {"type": "string"},
        "nullable": {"type": ["string", "null"]},
        "anything": {},
        "listed": {"type": "array", "items": {"$ref": "#/$defs/point"}},
        "either": {"anyOf": [{"type": "integer"}, {"$ref": "#/$defs/point"}]},
        "all": {"allOf": [{"$ref": "#/$defs/point"}]},
    },
    "required": ["must"],
    "$defs": {
        "point": {
            "type": "object",
            "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
            "required": ["x"],
            "additionalProperties": False,
        }
    },
}


async def test_an_optional_null_counts_as_left_out_where_null_is_forbidden() -> None:
    registry = Registry()
    registry.register(Echo("nulls", NULLS))
    tools = Toolset(registry)
    point = {"x": 1, "y": None}
    result = await tools.call(
        "nulls",
        {
            "must": "a",
            "may": None,
            "nullable": None,
            "anything": None,
            "listed": [point, {"x": 2, "y": 3}],
            "either": point,
            "all": point,
            "unknown": None,
        },
    )
    assert result.value()["arguments"] == {
        "must": "a",
        "nullable": None,
        "anything": None,
        "listed": [{"x": 1}, {"x": 2, "y": 3}],
        "either": {"x": 1},
        "all": {"x": 1},
        "unknown": None,
    }
    with pytest.raises(InvalidArgumentsError, match="null"):
        await tools.call("nulls", {"must": None})


def closed(*required: str, **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


TEXT = {"type": "string"}
POINT = closed("x", x={"type": "integer"}, y={"type": "integer"})


@pytest.mark.parametrize("key", ["oneOf", "anyOf"])
@pytest.mark.parametrize(
    ("schema", "answer", "meant"),
    [
        ([closed("a", a=TEXT), closed("b", b=TEXT)], {"a": "x", "b": None}, {"a": "x"}),
        ([closed("a", a=TEXT), closed("b", b=TEXT)], {"a": None, "b": "x"}, {"b": "x"}),
        (
            [closed("a", a=TEXT), closed("b", b=TEXT, n={"type": ["null", "string"]})],
            {"a": "x", "b": None, "n": None},
            {"a": "x"},
        ),
        (
            [closed("a", a=TEXT), closed("b", b=TEXT, n={"type": ["null", "string"]})],
            {"a": None, "b": "x", "n": None},
            {"b": "x", "n": None},
        ),
        (
            [{"allOf": [closed("a", a=POINT)]}, closed("b", b=TEXT)],
            {"a": {"x": 1, "y": None}, "b": None},
            {"a": {"x": 1}},
        ),
        (
            [
                {"properties": {"a": TEXT}, "required": ["a"]},
                {"properties": {"b": TEXT}, "required": ["b"]},
            ],
            {"a": "x", "b": None},
            {"a": "x"},
        ),
    ],
    ids=["first", "second", "nullable elsewhere", "nullable here", "nested", "open"],
)
async def test_a_null_that_belongs_to_another_alternative_counts_as_left_out(
    key: str, schema: list[Any], answer: dict[str, Any], meant: dict[str, Any]
) -> None:
    registry = Registry()
    registry.register(Echo("root", {"type": "object", key: schema}))
    registry.register(Echo("inner", {"type": "object", "properties": {"it": {key: schema}}}))
    tools = Toolset(registry)
    root = tools.openai(strict=True)[0]["function"]
    assert root["strict"] is True
    assert Draft202012Validator(root["parameters"]).is_valid(answer)
    assert (await tools.call("root", answer)).value()["arguments"] == meant
    assert (await tools.call("inner", {"it": answer})).value()["arguments"] == {"it": meant}


async def test_a_null_that_a_closed_alternative_does_not_know_counts_as_left_out() -> None:
    schema = {
        "type": "object",
        "properties": {"a": TEXT, "b": {"type": ["string", "null"]}},
        "oneOf": [closed("a", a=TEXT), closed("b", b=TEXT)],
    }
    registry = Registry()
    registry.register(Echo("closed", schema))
    result = await Toolset(registry).call("closed", {"a": "x", "b": None})
    assert result.value()["arguments"] == {"a": "x"}


async def test_a_null_that_its_own_declaration_allows_is_kept_where_nothing_forbids_it() -> None:
    one = {"properties": {"a": TEXT}, "required": ["a"]}
    other = {"properties": {"b": {"type": ["string", "null"]}, "c": TEXT}, "required": ["c"]}
    registry = Registry()
    registry.register(Echo("either", {"type": "object", "anyOf": [one, other]}))
    result = await Toolset(registry).call("either", {"a": "x", "b": None, "c": None})
    assert result.value()["arguments"] == {"a": "x", "b": None}


async def test_each_part_of_a_schema_is_compiled_once_however_large_the_argument(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled: list[object] = []
    compile_one = nulls._compiled  # pyright: ignore[reportPrivateUsage]

    def count(schema: object) -> Any:
        compiled.append(schema)
        return compile_one(schema)

    monkeypatch.setattr(nulls, "_compiled", count)
    row = {"anyOf": [closed("a", a=TEXT), closed("b", b=TEXT, n=TEXT)]}
    schema = {"type": "object", "properties": {"rows": {"type": "array", "items": row}}}
    rows = [{"b": "x", "n": None, "a": None}] * 500
    dropped = nulls.drop_forbidden_nulls({"rows": rows}, schema, original=schema)
    assert dropped == {"rows": [{"b": "x"}] * 500}
    assert len(compiled) <= 10


async def test_alternatives_nested_in_alternatives_are_not_all_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[object] = []
    walk = nulls._Dropping._is_valid  # pyright: ignore[reportPrivateUsage]

    def count(self: Any, value: Any, validator: Any) -> bool:
        tried.append(value)
        return walk(self, value, validator)

    monkeypatch.setattr(nulls._Dropping, "_is_valid", count)  # pyright: ignore[reportPrivateUsage]
    text = {"type": ["string", "null"]}
    schema: dict[str, Any] = {"type": "object", "properties": {"x": text}, "required": ["z"]}
    for depth in range(40):
        other = {"properties": {"x": text, f"p{depth}": TEXT}, "required": [f"p{depth}"]}
        schema = {"type": "object", "anyOf": [schema, other]}
    arguments = {"x": None, "y": None}
    assert nulls.drop_forbidden_nulls(arguments, schema, original=schema) is arguments
    assert len(tried) < 2000


async def test_a_null_that_only_the_alternatives_as_they_are_allow_is_kept() -> None:
    either = [{"properties": {"a": TEXT}}, {"properties": {"b": TEXT}}]
    registry = Registry()
    registry.register(Echo("either", {"type": "object", "oneOf": either}))
    given = {"a": "x", "b": None}
    assert (await Toolset(registry).call("either", given)).value()["arguments"] == given


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "prefixItems": [TEXT, POINT], "items": False},
        {"type": "array", "prefixItems": [TEXT], "items": POINT},
        {"type": "array", "prefixItems": [TEXT, POINT]},
        {"type": "array", "items": [TEXT, POINT]},
        {"anyOf": [{"type": "null"}, {"type": "array", "prefixItems": [TEXT, POINT]}]},
    ],
)
async def test_needless_nulls_are_dropped_from_tuples(schema: dict[str, Any]) -> None:
    draft = {"$schema": "http://json-schema.org/draft-07/schema#"}
    drafts = draft if isinstance(schema.get("items"), list) else {}
    registry = Registry()
    registry.register(Echo("tuple", {**drafts, **closed("p", p=schema)}))
    result = await Toolset(registry).call("tuple", {"p": ["a", {"x": 1, "y": None}]})
    assert result.value()["arguments"] == {"p": ["a", {"x": 1}]}


async def test_needless_nulls_are_dropped_from_the_values_of_a_table_but_not_its_entries() -> None:
    registry = Registry()
    registry.register(Echo("table", {"type": "object", "additionalProperties": POINT}))
    tools = Toolset(registry)
    result = await tools.call("table", {"here": {"x": 1, "y": None}})
    assert result.value()["arguments"] == {"here": {"x": 1}}
    with pytest.raises(InvalidArgumentsError):
        await tools.call("table", {"here": None})


@pytest.mark.parametrize("arguments", [[1], "text", 3, {"must": object()}, {"must": {1}}])
async def test_arguments_that_are_no_json_object_are_refused_as_usual(arguments: Any) -> None:
    registry = Registry()
    registry.register(Echo("nulls", NULLS))
    with pytest.raises(InvalidArgumentsError):
        await Toolset(registry).call("nulls", arguments)


async def test_endless_arguments_are_refused_as_usual() -> None:
    endless: dict[str, Any] = {"must": None}
    endless["may"] = endless
    registry = Registry()
    registry.register(Echo("nulls", {**NULLS, "properties": {**NULLS["properties"], "a b": {}}}))
    with pytest.raises(InvalidArgumentsError):
        await Toolset(registry).call("nulls", endless)


@settings(deadline=None)
@given(LEGAL_ROOTS, SEVERAL_ARGUMENTS)
def test_whatever_a_tool_takes_it_takes_through_a_view(
    schema: dict[str, Any], several: list[dict[str, Any]]
) -> None:
    registry = Registry()
    registry.register(Echo("echo", schema))
    tools = Toolset(registry)
    for arguments in several:
        try:
            registry.call("echo", arguments)
        except InvalidArgumentsError:
            continue
        assert tools.call_sync("echo", arguments).value()["tool"] == "echo"


async def test_a_null_that_is_required_is_kept_whatever_the_alternatives_say() -> None:
    either = [{"properties": {"b": TEXT}}, {"properties": {"a": {"type": "null"}, "c": TEXT}}]
    for schema in (
        {"required": ["a"], "anyOf": either},
        {"allOf": [{"required": ["a"]}, {"anyOf": either}]},
    ):
        registry = Registry()
        registry.register(Echo("echo", {"type": "object", **schema}))
        arguments = {"a": None, "c": 3}
        assert (await Toolset(registry).call("echo", arguments)).value()["arguments"] == arguments


LEAVES = STRINGS | st.sampled_from([{"type": "integer"}, {"type": ["boolean", "null"]}])
CLOSED = objects(
    LEAVES
    | objects(LEAVES, NAMES, closed=True)
    | LEAVES.map(lambda it: {"type": "array", "items": it}),
    NAMES,
    closed=True,
)


@settings(deadline=None)
@given(CLOSED, st.data())
def test_what_a_model_may_answer_in_strict_mode_is_what_the_tool_receives(
    schema: dict[str, Any], data: st.DataObject
) -> None:
    registry = Registry()
    registry.register(Echo("echo", schema))
    tools = Toolset(registry)
    [definition] = tools.openai(strict=True)
    assert definition["function"]["strict"] is True
    answer = data.draw(answers(definition["function"]["parameters"]))
    meant = intended(answer, definition["function"]["parameters"], schema)
    if Draft202012Validator(schema).is_valid(meant):
        assert tools.call_sync("echo", answer).value()["arguments"] == meant
    else:
        with pytest.raises(InvalidArgumentsError):
            tools.call_sync("echo", answer)


def answers(strict: dict[str, Any]) -> st.SearchStrategy[Any]:
    """What a strict schema of types, properties and items allows."""
    if "anyOf" in strict:
        return st.one_of([answers(part) for part in strict["anyOf"]])
    kinds = strict["type"] if isinstance(strict["type"], list) else [strict["type"]]
    by_kind: dict[str, st.SearchStrategy[Any]] = {
        "null": st.none(),
        "string": st.sampled_from(["", "a", "bb", "B"]),
        "integer": st.integers(0, 3),
        "boolean": st.booleans(),
    }
    if "array" in kinds:
        by_kind["array"] = st.lists(answers(strict["items"]), max_size=2)
    if "object" in kinds:
        members = {name: answers(it) for name, it in strict["properties"].items()}
        by_kind["object"] = st.fixed_dictionaries(members)
    return st.one_of([by_kind[kind] for kind in kinds])


def intended(answer: Any, strict: dict[str, Any], original: dict[str, Any]) -> Any:
    """Original names, and no nulls that only say that an argument is left out."""
    if not isinstance(answer, dict):
        return answer
    if "anyOf" in strict:
        strict = next(part for part in strict["anyOf"] if part["type"] == "object")
    meant: dict[str, Any] = {}
    pairs = zip(strict["properties"], original["properties"].items(), strict=True)
    for alias, (name, inner) in pairs:
        value = answer[alias]
        nullable = isinstance(inner["type"], list)
        if value is None and name not in original.get("required", ()) and not nullable:
            continue
        meant[name] = intended(value, strict["properties"][alias], inner)
    return meant


async def test_a_view_may_be_used_from_many_threads_while_tools_come_and_go() -> None:
    registry = Registry()
    registry.register(Echo("always"))
    tools = Toolset(registry)
    failures: list[BaseException] = []

    def use() -> None:
        try:
            for _ in range(100):
                assert tools.call_sync("always").value()["tool"] == "always"
                assert "always" in [it["name"] for it in tools.anthropic()]
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    def change() -> None:
        for number in range(100):
            registry.register(Echo(f"tool{number}"))

    threads = [threading.Thread(target=use) for _ in range(4)]
    threads.append(threading.Thread(target=change))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert failures == []
    assert len(tools) == 101


def test_an_unknown_api_is_refused() -> None:
    with pytest.raises(ValueError, match="responses"):
        Toolset(board()).openai(api="batch")  # pyright: ignore[reportArgumentType]


def test_the_two_apis_of_openai_differ_in_shape() -> None:
    registry = Registry()

    @tool
    def add(a: int, b: int = 1) -> int:
        """Add two numbers."""
        return a + b

    registry.register(add)
    [chat] = Toolset(registry).openai()
    [responses] = Toolset(registry).openai(api="responses")
    assert chat == {
        "type": "function",
        "function": {
            "name": "add",
            "description": "Add two numbers.",
            "parameters": add.input_schema,
        },
    }
    assert responses == {"type": "function", "strict": False, **chat["function"]}
