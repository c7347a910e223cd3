"""The store contract for the JSON values of namespaces."""
# ruff: noqa: D102 - the names of the tests say it

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from pegboard.errors import RevisionConflictError
from pegboard.storage import Store
from pegboard.testing.store_opening import OpensStores, tool

__all__ = ["ValuesContract"]

VALUES: list[Any] = [
    *(None, True, False, 0, -1, 2**53 + 1, 1.5, -1e-300, "", "text", [], {}),
    {"deep": [{"er": [None, {"": "é \N{PUSHPIN} \u2028"}]}]},
]


class ValuesContract(OpensStores):
    """JSON values by key, in namespaces."""

    def test_a_value_that_was_never_put_is_none(self, store: Store) -> None:
        values = store.namespace("pins")
        assert values.get("a") is None
        assert values.text("a") is None
        assert dict(values.items()) == {}
        assert values.keys() == []
        assert values.delete(["a"]) == 0
        assert values.delete([]) == 0
        assert store.namespaces() == []

    @pytest.mark.parametrize("value", VALUES, ids=repr)
    def test_any_json_comes_back(self, store: Store, twin: Store, value: Any) -> None:
        revision = store.namespace("pins").put("a", value)
        found = twin.namespace("pins").get("a")
        assert found is not None
        assert (found.value, found.revision) == (value, revision)
        assert type(found.value) is type(value)
        text = twin.namespace("pins").text("a")
        assert text is not None
        assert msgspec.json.decode(text) == value
        assert dict(twin.namespace("pins").items()) == {"a": found}

    def test_values_are_there_after_closing(
        self, store: Store, opened: Callable[[str], Store]
    ) -> None:
        store.namespace("pins").put_many({"a": 1, "b": [2]})
        before = dict(store.namespace("pins").items())
        store.close()
        again = opened(store.tenant)
        assert dict(again.namespace("pins").items()) == before
        assert again.namespaces() == ["pins"]

    def test_what_came_out_can_be_changed_without_harm(self, store: Store) -> None:
        given = {"list": [1]}
        values = store.namespace("pins")
        values.put("a", given)
        given["list"].append(2)
        found = values.get("a")
        assert found is not None
        found.value["list"].append(3)
        again = values.get("a")
        assert again is not None
        assert again.value == {"list": [1]}

    def test_items_are_in_the_order_of_the_keys(self, store: Store) -> None:
        keys = ["b", "a", "B", "é", "a b", "10", "9", "z", "\N{PUSHPIN}", "\uffee", "a!"]
        store.namespace("pins").put_many(dict.fromkeys(keys, 1))
        assert list(store.namespace("pins").items()) == sorted(keys)

    def test_keys_are_those_of_the_items_in_the_same_order(self, store: Store, twin: Store) -> None:
        keys = ["b", "a", "B", "é", "a b", "10", "9", "z", "\N{PUSHPIN}", "\uffee", "a!"]
        store.namespace("pins").put_many(dict.fromkeys(keys, 1))
        store.namespace("other").put("c", 1)
        assert twin.namespace("pins").keys() == sorted(keys)
        store.namespace("pins").delete(keys[1:])
        assert twin.namespace("pins").keys() == ["b"]

    def test_namespaces_know_nothing_of_each_other(self, store: Store) -> None:
        one, other = store.namespace("one"), store.namespace("other")
        one.put("key", 1)
        other.put("key", 2)
        assert [it.value for it in one.items().values()] == [1]
        assert other.delete(["key"]) == 1
        found = one.get("key")
        assert found is not None
        assert found.value == 1
        assert store.load_all() == []

    def test_tools_and_values_of_one_name_do_not_meet(self, store: Store) -> None:
        store.save(tool("a"))
        for room in ("tools", "usage", "default", "version", "state"):
            store.namespace(room).put("a", room)
        store.delete("a")
        for room in ("tools", "usage", "default", "version", "state"):
            found = store.namespace(room).get("a")
            assert found is not None
            assert found.value == room

    def test_namespaces_are_those_that_have_values_in_order(self, store: Store) -> None:
        for name in ("b", "a", "B", "é"):
            store.namespace(name).put("key", 1)
        assert store.namespaces() == ["B", "a", "b", "é"]
        store.namespace("a").delete(["key"])
        assert store.namespaces() == ["B", "b", "é"]

    def test_put_many_replaces_and_leaves_the_others(self, store: Store) -> None:
        values = store.namespace("pins")
        values.put_many({"a": 1, "b": 2})
        values.put_many({"b": 3, "c": 4})
        values.put_many({})
        assert {key: it.value for key, it in values.items().items()} == {"a": 1, "b": 3, "c": 4}

    def test_put_many_keeps_all_or_none(self, store: Store) -> None:
        values = store.namespace("pins")
        values.put("b", 1)
        with pytest.raises(ValueError, match="bad"):
            values.put_many({"a": 1, "b": 2, "bad": float("nan")})
        assert {key: it.value for key, it in values.items().items()} == {"b": 1}

    def test_deleting_counts_what_there_was(self, store: Store, twin: Store) -> None:
        values = store.namespace("pins")
        values.put_many({f"k{number}": number for number in range(100)})
        assert values.delete(iter(["k1", "k2", "k1", "missing"])) == 2
        assert twin.namespace("pins").get("k1") is None
        assert twin.namespace("pins").delete(f"k{number}" for number in range(40_000)) == 98
        assert dict(values.items()) == {}

    def test_every_change_of_a_value_gives_another_revision(self, store: Store) -> None:
        values = store.namespace("pins")
        first = values.put("a", 1)
        second = values.put("a", 2)
        values.put_many({"a": 3})
        found = values.get("a")
        assert found is not None
        assert first != second != found.revision

    def test_an_expected_revision_lets_a_value_be_put(self, store: Store) -> None:
        values = store.namespace("pins")
        first = values.put("a", 1, expected=None)
        values.put("a", 2, expected=first)
        values.delete(["a"])
        values.put("a", 3, expected=None)
        found = values.get("a")
        assert found is not None
        assert found.value == 3

    def test_another_revision_than_expected_stops_a_value(self, store: Store, twin: Store) -> None:
        values = store.namespace("pins")
        old = values.put("a", 1)
        new = twin.namespace("pins").put("a", 2)
        for expected in (old, None):
            with pytest.raises(RevisionConflictError) as caught:
                values.put("a", 3, expected=expected)
            caught_as = (caught.value.key, caught.value.expected, caught.value.found)
            assert caught_as == ("a", expected, new)
        twin.namespace("pins").delete(["a"])
        with pytest.raises(RevisionConflictError) as caught:
            values.put("a", 3, expected=new)
        assert (caught.value.expected, caught.value.found) == (new, None)
        assert dict(values.items()) == {}
