import copy
import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegboard.model import FrozenDict, FrozenList, freeze

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)

CHANGES: list[tuple[str, str, tuple[Any, ...]]] = [
    ("d", "update", ({"a": 1},)),
    ("d", "clear", ()),
    ("d", "pop", ("x",)),
    ("d", "popitem", ()),
    ("d", "setdefault", ("y", 1)),
    ("d", "__setitem__", ("x", 2)),
    ("d", "__delitem__", ("x",)),
    ("d", "__ior__", ({"y": 1},)),
    ("l", "append", (1,)),
    ("l", "extend", ([1],)),
    ("l", "insert", (0, 1)),
    ("l", "pop", ()),
    ("l", "remove", (1,)),
    ("l", "reverse", ()),
    ("l", "sort", ()),
    ("l", "clear", ()),
    ("l", "__setitem__", (0, 1)),
    ("l", "__delitem__", (0,)),
    ("l", "__iadd__", ([1],)),
    ("l", "__imul__", (2,)),
]


@pytest.mark.parametrize(("part", "method", "arguments"), CHANGES)
def test_no_change_gets_through_at_any_depth(
    part: str, method: str, arguments: tuple[Any, ...]
) -> None:
    frozen = freeze({"d": {"x": 1}, "l": [1, 2]})
    with pytest.raises(TypeError, match="frozen"):
        getattr(frozen[part], method)(*arguments)
    assert frozen == {"d": {"x": 1}, "l": [1, 2]}


@given(json_values)
def test_a_frozen_value_equals_what_it_was_made_of(value: Any) -> None:
    frozen = freeze(value)
    assert frozen == value
    assert json.dumps(frozen) == json.dumps(value)
    assert pickle.loads(pickle.dumps(frozen)) == value


def test_a_deep_copy_can_be_edited() -> None:
    frozen = freeze({"a": [{"b": 1}]})
    edited = copy.deepcopy(frozen)
    edited["a"][0]["b"] = 2
    assert type(edited) is dict
    assert type(copy.copy(frozen)) is dict
    assert type(copy.copy(frozen["a"])) is list
    assert frozen == {"a": [{"b": 1}]}


def test_the_original_can_change_without_the_copy() -> None:
    original = {"a": [1]}
    frozen = freeze(original)
    original["a"].append(2)
    assert frozen == FrozenDict({"a": FrozenList([1])})


def test_schemas_that_say_only_a_type_are_shared() -> None:
    first, second = freeze({"type": "string"}), freeze({"type": "string"})
    assert first is second
    assert first == {"type": "string"}
    assert freeze({"type": ["string", "null"]}) == {"type": ["string", "null"]}
    assert freeze({"type": "odd"}) == {"type": "odd"}
