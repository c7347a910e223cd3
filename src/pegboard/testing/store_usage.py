"""The contract of a store about usage: counts add up, and the most used come first."""
# ruff: noqa: D102 - the names of the tests say it

from datetime import UTC, datetime, timedelta, timezone
from typing import Any, cast

import pytest

from pegboard.model import Usage
from pegboard.storage import Store, Use
from pegboard.testing.store_opening import OpensStores, tool

__all__ = ["UsageContract"]

NOON = datetime(2026, 11, 16, 12, 0, 0, 123456, UTC)
LATER = NOON + timedelta(microseconds=1)


class UsageContract(OpensStores):
    """How often and when tools were used."""

    def test_nothing_was_used_at_first(self, store: Store) -> None:
        store.save(tool("a"))
        assert store.usage().get("a", Usage()) == Usage()
        assert store.usage(["b"]) == {}

    def test_uses_add_up(self, store: Store, twin: Store) -> None:
        store.save(tool("a"))
        store.add_usage({"a": Use(2, NOON)})
        twin.add_usage({"a": Use(3, LATER), "b": Use(1, NOON)})
        for reader in (store, twin):
            assert reader.usage(["a", "b"]) == {
                "a": Usage(use_frequency=5, last_used=LATER),
                "b": Usage(use_frequency=1, last_used=NOON),
            }

    def test_a_report_that_comes_late_does_not_turn_time_back(self, store: Store) -> None:
        store.add_usage({"a": Use(1, LATER)})
        store.add_usage({"a": Use(1, NOON)})
        assert store.usage() == {"a": Usage(use_frequency=2, last_used=LATER)}

    def test_tools_that_are_not_stored_here_are_counted_too(self, store: Store) -> None:
        store.add_usage({"a": Use(1, NOON)})
        store.set_usage({"b": Usage(use_frequency=7, last_used=NOON)})
        store.save_many([tool("a"), tool("b")])
        assert store.usage() == {
            "a": Usage(use_frequency=1, last_used=NOON),
            "b": Usage(use_frequency=7, last_used=NOON),
        }
        assert [it.tool.name for it in store.load_all()] == ["b", "a"]

    def test_set_usage_replaces(self, store: Store, twin: Store) -> None:
        store.save(tool("a"))
        store.add_usage({"a": Use(9, LATER), "b": Use(9, LATER)})
        store.set_usage({"a": Usage(use_frequency=2, last_used=NOON), "b": Usage(use_frequency=1)})
        for reader in (store, twin):
            assert reader.usage() == {
                "a": Usage(use_frequency=2, last_used=NOON),
                "b": Usage(use_frequency=1),
            }
        store.add_usage({"b": Use(1, NOON)})
        assert twin.usage(["b"]) == {"b": Usage(use_frequency=2, last_used=NOON)}

    def test_a_tool_set_to_no_uses_counts_as_never_used(self, store: Store, twin: Store) -> None:
        store.save(tool("a"))
        store.add_usage({"a": Use(9, NOON), "b": Use(9, NOON)})
        store.set_usage({"a": Usage(), "b": Usage(), "c": Usage()})
        for reader in (store, twin):
            assert reader.usage() == {}
            assert reader.usage(["a", "b"]) == {}
        store.set_usage({"a": Usage(last_used=NOON)})
        assert twin.usage() == {"a": Usage(last_used=NOON)}
        store.add_usage({"b": Use(1, NOON)})
        assert twin.usage(["b"]) == {"b": Usage(use_frequency=1, last_used=NOON)}

    def test_usage_of_some_leaves_out_the_others(self, store: Store) -> None:
        store.add_usage({"a": Use(1, NOON), "b": Use(2, NOON)})
        assert set(store.usage(iter(["b", "x", "b"]))) == {"b"}
        assert store.usage([]) == {}
        assert len(store.usage(f"t{number}" for number in range(40_000))) == 0

    def test_no_uses_are_no_change(self, store: Store) -> None:
        store.add_usage({})
        store.set_usage({})
        assert store.usage() == {}

    def test_deleting_a_tool_forgets_its_usage(self, store: Store, twin: Store) -> None:
        store.save_many([tool("a"), tool("b")])
        store.add_usage({"a": Use(4, NOON), "b": Use(1, NOON)})
        store.delete("a")
        assert twin.usage() == {"b": Usage(use_frequency=1, last_used=NOON)}
        store.save(tool("a"))
        assert twin.usage(["a"]).get("a", Usage()) == Usage()

    def test_saving_a_tool_leaves_its_usage(self, store: Store) -> None:
        store.save(tool("a"))
        store.add_usage({"a": Use(4, NOON)})
        store.save(tool("a", "new"))
        store.save_many([tool("a", "newer")])
        assert store.usage() == {"a": Usage(use_frequency=4, last_used=NOON)}

    def test_the_most_used_come_first_and_the_others_in_a_lasting_order(
        self, store: Store, twin: Store
    ) -> None:
        names = ["m", "a", "z", "k", "B", "é"]
        store.save_many(tool(name) for name in names)
        store.add_usage({"k": Use(3, NOON), "z": Use(8, NOON), "nobody": Use(99, NOON)})
        order = [it.tool.name for it in store.load_all()]
        assert order[:2] == ["z", "k"]
        assert sorted(order) == sorted(names)
        store.save(tool("a", "new"))
        assert [it.tool.name for it in twin.load_all()] == order
        store.set_usage({"z": Usage()})
        assert twin.load_all()[0].tool.name == "k"

    @pytest.mark.parametrize(
        ("given", "kept"),
        [
            (NOON.replace(tzinfo=None), NOON),
            (NOON.astimezone(timezone(timedelta(hours=-7, minutes=-30))), NOON),
            (datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)),
            (datetime.min.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC)),
            (datetime.max.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)),
        ],
        ids=["naive is UTC", "elsewhere", "midnight", "first moment", "last moment"],
    )
    def test_moments_are_kept_exactly_in_utc(
        self, store: Store, given: datetime, kept: datetime
    ) -> None:
        store.add_usage({"a": Use(1, given)})
        store.set_usage({"b": Usage(use_frequency=1, last_used=given)})
        for usage in store.usage().values():
            assert usage.last_used == kept
            assert usage.last_used is not None
            assert usage.last_used.utcoffset() == timedelta()

    @pytest.mark.parametrize("count", [2**63 - 1, 2**63, 2**80, -1, 1.5, float("nan"), "3", None])
    def test_a_strange_count_is_refused_or_kept_exactly(self, store: Store, count: object) -> None:
        given = cast("Any", count)
        try:
            store.set_usage({"a": Usage(use_frequency=1), "b": Usage(use_frequency=given)})
        except (TypeError, ValueError):
            assert store.usage() == {}
        else:
            assert store.usage()["b"] == Usage(use_frequency=given)
            assert type(store.usage()["b"].use_frequency) is type(count)

    @pytest.mark.parametrize("moment", ["2026-11-16T02:00:00Z", 1_800_000_000, b"x"])
    def test_a_strange_moment_is_refused_or_kept_exactly(
        self, store: Store, moment: object
    ) -> None:
        given = cast("Any", moment)
        try:
            store.add_usage({"a": Use(1, NOON), "b": Use(1, given)})
        except (TypeError, ValueError):
            assert store.usage() == {}
        else:
            assert store.usage()["b"].last_used == given
