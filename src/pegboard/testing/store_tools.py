"""The contract of a store about tools: kept whole, all or none, and compared before a write."""
# ruff: noqa: D102 - the names of the tests say it

from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest

from pegboard.errors import RevisionConflictError
from pegboard.model import Tool, Usage
from pegboard.storage import Store, StoredTool
from pegboard.testing.store_opening import FULL, OpensStores, tool

__all__ = ["ToolsContract"]


class ToolsContract(OpensStores):
    """Tools come back as they were given."""

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

    def test_fields_that_nobody_knows_are_kept(self, store: Store) -> None:
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
