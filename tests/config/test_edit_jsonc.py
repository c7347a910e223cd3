"""Members come and go, and every other byte stays."""

import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pegboard.config import parse_jsonc
from pegboard.config.files.edit_jsonc import remove_member, remove_members, set_member, set_members
from pegboard.config.files.jsonc import Node
from pegboard.errors import ConfigError

KEYS = st.sampled_from(["a", "b", "c", 'q"', "ü", "//", "/*", ","])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "// x", "a,b}", "\ud800"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
FILLING = st.sampled_from(
    ["", "", " ", "\n  ", "\n", "\r\n\t", "// a, {comment]\n", "/* , */", " /* a\n b */ // c\n  "]
)


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Give an object as a person may have written it."""

    def gap() -> str:
        return draw(FILLING)

    def written(depth: int) -> str:
        if depth == 0 or draw(st.integers(0, 3)) == 0:
            return json.dumps(draw(VALUES))
        keys = draw(st.lists(KEYS, max_size=3))
        if not keys:
            inside = draw(st.sampled_from(["", "/* , */", "// x\n", "\n  // x\n"]))
            return f"{{{inside}}}"
        members = [
            f"{gap()}{json.dumps(it)}{gap()}:{gap()}{written(depth - 1)}{gap()}" for it in keys
        ]
        end = draw(st.sampled_from(["", ",", ",\n", ", // end\n"]))
        return f"{{{','.join(members)}{end}}}"

    body = written(3)
    assume(body.startswith("{"))
    bom = draw(st.sampled_from(["", "\ufeff"]))
    return f"{bom}{gap()}{body}{gap()}"


def objects(node: Node, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = [path] if isinstance(node.value, dict) else []
    last = {it.key: it for it in node.members}
    for key, member in last.items():
        found += objects(member.node, (*path, key))
    return found


def expected(content: dict[str, Any], path: tuple[str, ...], value: object) -> dict[str, Any]:
    copied = json.loads(json.dumps(content))
    inner = copied
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return copied


@given(texts(), st.data(), VALUES)
def test_what_is_added_and_removed_again_leaves_no_trace(
    text: str, data: st.DataObject, value: Any
) -> None:
    document = parse_jsonc(text)
    path = (*data.draw(st.sampled_from(objects(document.root))), "new one")
    added = set_member(text, path, value)
    assert parse_jsonc(added).root.value == expected(document.root.value, path, value)
    assert remove_member(added, path) == text
    added.encode()


@given(texts(), st.data(), VALUES)
def test_a_value_is_replaced_where_it_stands(text: str, data: st.DataObject, value: Any) -> None:
    document = parse_jsonc(text)
    around = data.draw(st.sampled_from(objects(document.root)))
    node = document.root.find(around)
    assert node is not None
    assume(node.members)
    key = data.draw(st.sampled_from(sorted(it.key for it in node.members)))
    there = document.root.find((*around, key))
    assert there is not None
    changed = set_member(text, (*around, key), value)
    assert parse_jsonc(changed).root.value == expected(document.root.value, (*around, key), value)
    bom = "\ufeff" if text.startswith("\ufeff") else ""
    assert changed.startswith(bom + document.text[: there.start])
    assert changed.endswith(document.text[there.end :])


@given(texts(), st.data())
def test_what_is_removed_takes_no_comment_and_no_other_member_along(
    text: str, data: st.DataObject
) -> None:
    document = parse_jsonc(text)
    around = data.draw(st.sampled_from(objects(document.root)))
    node = document.root.find(around)
    assert node is not None
    assume(node.members)
    key = data.draw(st.sampled_from(sorted(it.key for it in node.members)))
    left = remove_member(text, (*around, key))
    wanted = expected(document.root.value, (*around, key), None)
    inner = wanted
    for step in around:
        inner = inner[step]
    del inner[key]
    assert parse_jsonc(left).root.value == wanted
    outside = document.text[: node.start] + document.text[node.end :]
    assert left.count("comment]") >= outside.count("comment]")


@given(texts(), st.data(), st.dictionaries(KEYS, VALUES, max_size=5))
def test_many_that_are_put_in_at_once_look_as_one_after_the_other(
    text: str, data: st.DataObject, members: dict[str, Any]
) -> None:
    around = data.draw(st.sampled_from(objects(parse_jsonc(text).root)))
    node = parse_jsonc(text).root.find(around)
    assert node is not None
    one_by_one = text
    for key, value in members.items():
        one_by_one = set_member(one_by_one, (*around, key), value)
    at_once = set_members(text, around, members)
    assert parse_jsonc(at_once).root.value == parse_jsonc(one_by_one).root.value
    # What is replaced may be what an odd file is indented by.
    assert at_once == one_by_one or members.keys() & node.value.keys()


@given(texts(), st.data(), st.sets(KEYS))
def test_many_that_are_taken_out_at_once_leave_what_one_after_the_other_does(
    text: str, data: st.DataObject, keys: set[str]
) -> None:
    around = data.draw(st.sampled_from(objects(parse_jsonc(text).root)))
    node = parse_jsonc(text).root.find(around)
    assert node is not None
    there = [it.key for it in node.members]
    assume(len(there) == len(set(there)))
    one_by_one = text
    for key in there:
        one_by_one = remove_member(one_by_one, (*around, key)) if key in keys else one_by_one
    assert remove_members(text, around, keys) == one_by_one


FILE = """{
    // my servers
    "mcpServers": {
        "time": {"command": "uvx"}, // what day it is
        // a heading
        "docs": {
            "url": "https://docs.example.com/mcp" // no comma
        } // the last one
    },
    "gateway": {}
}
"""


def test_a_new_member_is_written_as_its_neighbours_are() -> None:
    added = set_member(FILE, ("mcpServers", "git"), {"command": "uvx", "args": ["git"]})
    assert added == FILE.replace(
        "        } // the last one\n",
        "        }, // the last one\n"
        '        "git": {\n'
        '            "command": "uvx",\n'
        '            "args": ["git"]\n'
        "        }\n",
    )


def test_a_comment_behind_a_removed_member_stays_on_a_line_of_its_own() -> None:
    left = remove_member(FILE, ("mcpServers", "time"))
    assert left == FILE.replace('"time": {"command": "uvx"}, // what', "// what")
    assert remove_member(FILE, ("mcpServers", "docs")).endswith(
        '"time": {"command": "uvx"} // what day it is\n'
        '        // a heading\n        // the last one\n    },\n    "gateway": {}\n}\n'
    )


def test_objects_on_the_way_are_made_and_line_ends_are_kept() -> None:
    assert set_member("{}\r\n", ("a",), 1) == '{\r\n  "a": 1\r\n}\r\n'
    assert set_member('{"a": {}}', ("a", "b"), 1) == '{"a": {"b": 1}}'
    assert set_member('{\r\n\t"x": 1\r\n}\r\n', ("a", "b"), 1) == (
        '{\r\n\t"x": 1,\r\n\t"a": {\r\n\t\t"b": 1\r\n\t}\r\n}\r\n'
    )
    assert set_member("", ("a",), 1) == '{\n  "a": 1\n}\n'
    assert set_member("\ufeff\n", ("a",), 1) == '\ufeff{\n  "a": 1\n}\n'


def test_a_key_that_stands_twice_is_gone_altogether() -> None:
    assert remove_member('{"a": 1, "b": 2, "a": 3}', ("a",)) == '{"b": 2}'
    assert set_member('{"a": 1, "a": 3}', ("a",), 4) == '{"a": 1, "a": 4}'


def test_what_is_no_object_is_refused_and_what_is_not_there_stays_away() -> None:
    with pytest.raises(ConfigError, match="must contain an object"):
        set_member("[]", ("a",), 1)
    with pytest.raises(ConfigError, match="`a` must be an object") as caught:
        set_member('{\n "a": []}', ("a", "b"), 1)
    assert (caught.value.line, caught.value.column) == (2, 7)
    with pytest.raises(ConfigError, match="at least one key"):
        set_member("{}", (), 1)
    for text in ("{}", "[]", '{"a": {"c": 1}}', '{"a": 1}'):
        assert remove_member(text, ("a", "b")) == text


def test_a_list_is_on_one_line_unless_it_is_long_or_holds_objects() -> None:
    written = set_member("{}", ("a",), {"short": [1, "b"], "long": ["x" * 90], "none": {}})
    assert written == (
        '{\n  "a": {\n    "short": [1, "b"],\n    "long": [\n      "'
        + "x" * 90
        + '"\n    ],\n    "none": {}\n  }\n}'
    )
    assert set_member("{}", ("a",), [{"b": 1}]) == '{\n  "a": [\n    {\n      "b": 1\n    }\n  ]\n}'
