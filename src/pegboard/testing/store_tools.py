"""The store contract for tools and usage counts: stored whole, all or none, and added up."""
# ruff: noqa: D102 - the names of the tests say it

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from typing import Any, cast

import pytest

from pegboard.errors import RevisionConflictError
from pegboard.model import Tool, Usage
from pegboard.storage import Store, StoredTool, Use
from pegboard.testing.store_opening import FULL, OpensStores, tool

__all__ = ["ToolsContract", "UsageContract"]

NOON = datetime(2026, 11, 16, 12, 0, 0, 123456, UTC)
LATER = NOON + timedelta(microseconds=1)


class ToolsContract(OpensStores):
    """Tools come back as they were saved."""

    def test_an_empty_store_has_nothing(self, store: Store) -> None:
        assert store.load_all() == []
        assert store.load(["a"]) == {}
        assert store.load([]) == {}
        assert not store.delete("a")
        store.check()

    def test_every_field_of_a_tool_comes_back(self, store: Store, twin: Store) -> None:
        revision = store.save(FULL)
        for reader in (store, twin):
            [found] = reader.load_all()
            assert found == StoredTool(tool=FULL, revision=revision)
            assert isinstance(found.tool, Tool)
            assert reader.load([FULL.name]) == {FULL.name: found}
        store.check()

    @pytest.mark.parametrize("deferred", [True, False])
    def test_a_tool_that_says_little_comes_back(self, store: Store, *, deferred: bool) -> None:
        few = Tool(name="a", defer_loading=deferred)
        store.save(few)
        assert [it.tool for it in store.load_all()] == [few]

    def test_an_empty_output_schema_is_not_none(self, store: Store) -> None:
        store.save(Tool(name="a", output_schema={}))
        store.save(Tool(name="b"))
        found = store.load(["a", "b"])
        assert found["a"].tool.output_schema == {}
        assert found["b"].tool.output_schema is None

    def test_what_is_saved_again_is_replaced_whole(self, store: Store) -> None:
        store.save(FULL)
        store.save(tool(FULL.name))
        assert [it.tool for it in store.load_all()] == [tool(FULL.name)]

    def test_what_was_saved_is_there_after_closing(
        self, store: Store, opened: Callable[[str], Store]
    ) -> None:
        store.save(StoredTool(tool=FULL, extras={"owner": "me"}))
        before = store.load_all()
        store.close()
        assert opened(store.tenant).load_all() == before

    def test_load_gives_what_there_is_and_leaves_out_the_rest(self, store: Store) -> None:
        store.save_many([tool("a"), tool("b"), tool("c")])
        assert set(store.load(iter(["c", "x", "a", "c"]))) == {"a", "c"}

    def test_load_takes_as_many_names_as_one_likes(self, store: Store) -> None:
        store.save_many(tool(f"t{number}") for number in range(200))
        wanted = [f"t{number}" for number in range(40_000)]
        assert len(store.load(wanted)) == 200

    def test_unknown_fields_are_kept(self, store: Store) -> None:
        extras = {"owner": {"team": ["a", 1, None, 1.5, True]}, "版本": 2}
        store.save(StoredTool(tool=FULL, extras=extras))
        [found] = store.load_all()
        assert (found.tool, found.extras) == (FULL, extras)
        assert store.load([FULL.name])[FULL.name] == found

    def test_a_plain_tool_leaves_the_extras_that_are_there(self, store: Store) -> None:
        store.save(StoredTool(tool=tool("a"), extras={"owner": "me"}))
        store.save(tool("a", "new"))
        store.save_many([tool("a", "newer")])
        [found] = store.load_all()
        assert (found.tool.description, found.extras) == ("newer", {"owner": "me"})

    def test_a_stored_tool_brings_its_own_extras(self, store: Store) -> None:
        store.save(StoredTool(tool=tool("a"), extras={"owner": "me"}))
        store.save(StoredTool(tool=tool("a"), extras={"cost": 3}))
        assert store.load(["a"])["a"].extras == {"cost": 3}
        store.save(StoredTool(tool=tool("a")))
        assert store.load(["a"])["a"].extras == {}

    def test_extras_cannot_pass_for_fields_of_the_tool_or_its_usage(self, store: Store) -> None:
        said = {"name": "b", "mcp_server": "x", "use_frequency": 9, "last_used": None, "cost": 3}
        store.save(StoredTool(tool=tool("a"), extras=said))
        [found] = store.load_all()
        assert found.tool == tool("a")
        assert found.extras["cost"] == 3
        assert found.extras.keys().isdisjoint({"name", "mcp_server"})
        assert store.usage().get("a", Usage()) == Usage()

    def test_extras_go_with_their_tool(self, store: Store) -> None:
        store.save(StoredTool(tool=tool("a"), extras={"owner": "me"}))
        store.delete("a")
        store.save(tool("a"))
        assert store.load(["a"])["a"].extras == {}

    def test_save_many_gives_the_revisions_that_load_gives(self, store: Store) -> None:
        revisions = store.save_many(iter([tool("a"), StoredTool(tool=tool("b")), FULL]))
        assert revisions == {it.tool.name: it.revision for it in store.load_all()}
        assert set(revisions) == {"a", "b", FULL.name}
        assert store.save_many([]) == {}

    def test_of_two_tools_of_one_name_the_last_is_kept(self, store: Store) -> None:
        revisions = store.save_many([tool("a", "1"), tool("b"), tool("a", "2")], expected=None)
        found = store.load(["a"])["a"]
        assert (found.tool.description, found.revision) == ("2", revisions["a"])

    def test_progress_is_told_up_to_the_end(self, store: Store) -> None:
        told: list[tuple[int, int]] = []
        store.save_many(
            (tool(f"t{number}") for number in range(2_500)),
            on_progress=lambda done, total: told.append((done, total)),
        )
        assert told[-1] == (2_500, 2_500)
        assert {total for _, total in told} == {2_500}
        assert [done for done, _ in told] == sorted({done for done, _ in told})

    def test_a_failing_progress_leaves_all_or_nothing(self, store: Store) -> None:
        def fail(done: int, total: int) -> None:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            store.save_many([tool("a"), tool("b")], on_progress=fail)
        assert len(store.load_all()) in {0, 2}
        store.save(tool("c"))

    def test_tools_that_fail_to_come_leave_nothing(self, store: Store) -> None:
        def some() -> Iterator[Tool]:
            yield tool("a")
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            store.save_many(some())
        assert store.load_all() == []
        store.save(tool("b"))

    def test_deleting_tells_whether_there_was_one(self, store: Store, twin: Store) -> None:
        store.save_many([tool("a"), tool("b")])
        assert store.delete("a")
        assert not store.delete("a")
        assert not twin.delete("a")
        assert [it.tool.name for it in twin.load_all()] == ["b"]
        assert store.load(["a"]) == {}

    def test_every_change_gives_another_revision(self, store: Store) -> None:
        seen = [
            store.save(tool("a", "1")),
            store.save(tool("a", "2")),
            store.save(StoredTool(tool=tool("a", "2"), extras={"owner": "me"})),
            store.save_many([tool("a", "3")])["a"],
        ]
        assert all(one != next_one for one, next_one in pairwise(seen))
        assert store.load(["a"])["a"].revision == seen[-1]

    def test_usage_is_no_change_of_the_tool(self, store: Store) -> None:
        revision = store.save(tool("a"))
        store.set_usage({"a": Usage(use_frequency=3)})
        assert store.save(tool("a", "new"), expected=revision) != revision

    def test_an_expected_revision_lets_a_write_happen(self, store: Store) -> None:
        first = store.save(tool("a", "1"), expected=None)
        second = store.save(tool("a", "2"), expected=first)
        third = store.save_many([tool("a", "3")], expected=second)["a"]
        assert store.delete("a", expected=third)
        assert not store.delete("a", expected=None)
        store.save(tool("a", "4"), expected=None)
        assert store.load(["a"])["a"].tool.description == "4"

    def test_a_revision_that_is_gone_stops_every_write(self, store: Store, twin: Store) -> None:
        old = store.save(tool("a", "1"))
        new = twin.save(tool("a", "2"))
        writes: list[Callable[[], object]] = [
            lambda: store.save(tool("a", "3"), expected=old),
            lambda: store.save_many([tool("b"), tool("a", "3")], expected=old),
            lambda: store.delete("a", expected=old),
        ]
        for write in writes:
            with pytest.raises(RevisionConflictError) as caught:
                write()
            assert caught.value.expected == old
            assert (caught.value.key, caught.value.found) in {("a", new), ("b", None)}
        assert store.load_all() == [StoredTool(tool=tool("a", "2"), revision=new)]

    def test_nothing_is_expected_where_nothing_is(self, store: Store) -> None:
        found = store.save(tool("a", "1"))
        writes: list[Callable[[], object]] = [
            lambda: store.save(tool("a", "2"), expected=None),
            lambda: store.save_many([tool("b"), tool("a", "2")], expected=None),
            lambda: store.delete("a", expected=None),
        ]
        for write in writes:
            with pytest.raises(RevisionConflictError) as caught:
                write()
            assert (caught.value.key, caught.value.expected) == ("a", None)
            assert caught.value.found == found
        assert [it.tool.description for it in store.load_all()] == ["1"]

    def test_a_revision_of_what_was_deleted_stops_every_write(self, store: Store) -> None:
        old = store.save(tool("a"))
        store.delete("a")
        writes: list[Callable[[], object]] = [
            lambda: store.save(tool("a"), expected=old),
            lambda: store.delete("a", expected=old),
        ]
        for write in writes:
            with pytest.raises(RevisionConflictError) as caught:
                write()
            assert (caught.value.expected, caught.value.found) == (old, None)
        assert store.load_all() == []


class UsageContract(OpensStores):
    """Usage counts add up, and the most used tools come first."""

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
        store.add_usage({"k": Use(3, NOON), "z": Use(8, NOON), "missing": Use(99, NOON)})
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
