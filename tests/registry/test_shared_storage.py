"""Several registries on one store: whose definition counts, and what happens when a store fails."""

import gc
import multiprocessing
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest

from pegboard import (
    Access,
    CatalogChange,
    Registry,
    StorageError,
    Tool,
    ToolConflictError,
    ToolNotFoundError,
)
from pegboard.model import freeze
from pegboard.storage import Store, open_store
from pegboard.testing import Memory


class Wayward:
    """A store whose methods can be told to fail or to wait."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.failing: set[str] = set()
        self.before: dict[str, Callable[[], object]] = {}

    def __getattr__(self, name: str) -> Any:
        if name in self.failing:
            raise StorageError("Not now.", url="memory:")
        if name in self.before:
            self.before[name]()
        return getattr(self._store, name)


def wayward(memory: Memory) -> tuple[Wayward, Store]:
    store = Wayward(memory.open())
    return store, cast("Store", store)


def send_email(to: str) -> str:
    """Send an email."""
    return f"sent to {to}"


def seen(registry: Registry, wanted: Callable[[], bool]) -> bool:
    """Wait until the board is as wanted."""
    changed = threading.Event()
    stop = registry.subscribe(lambda _: changed.set())
    try:
        while not wanted():
            if not changed.wait(5):
                return False
            changed.clear()
        return True
    finally:
        stop()


def names_in(store: Store) -> list[str]:
    return sorted(it.tool.name for it in store.load_all())


def test_taking_a_function_off_the_board_leaves_what_others_have_stored() -> None:
    memory = Memory()
    with (
        memory.open() as one,
        memory.open() as two,
        Registry(storage=one) as mine,
        Registry(storage=two) as theirs,
    ):
        mine.register(send_email)
        theirs.register(Tool(name="send_email", description="Theirs."))
        assert mine.unregister("send_email").description == "Send an email."
        assert seen(mine, lambda: "send_email" in mine)
        assert mine.get("send_email").description == "Theirs."
        assert names_in(one) == ["send_email"]


def test_a_hidden_definition_comes_to_light_in_one_change() -> None:
    changes: list[CatalogChange] = []
    with Memory().open() as store:
        store.save(Tool(name="send_email", description="Stored."))
        with Registry(storage=store) as registry:
            registry.register(send_email, on_conflict="override")
            registry.subscribe(changes.append)
            registry.unregister("send_email")
            assert registry.get("send_email").description == "Stored."
            registry.unregister("send_email")
            assert "send_email" not in registry
    assert [(len(it.added), len(it.changed), len(it.removed)) for it in changes] == [
        (0, 1, 0),
        (0, 0, 1),
    ]


def test_a_function_and_the_definition_behind_it_are_replaced_together() -> None:
    with Memory().open() as store:
        store.save(Tool(name="send_email", description="Stored."))
        with Registry(storage=store) as registry:
            registry.register(send_email, on_conflict="override")
            new = Tool(name="send_email", description="New.")
            registry.register_many([new], replacing=["send_email"])
            assert registry.get("send_email").description == "New."
            assert store.load(["send_email"])["send_email"].tool.description == "New."
            registry.unregister("send_email")
            assert "send_email" not in registry


def test_a_write_that_failed_half_way_is_shown_as_it_is() -> None:
    store, given = wayward(Memory())
    with Registry(storage=given) as registry:
        registry.register(Tool(name="old"))
        store.failing = {"delete"}
        with pytest.raises(StorageError):
            registry.register_many([Tool(name="new")], replacing=["old"])
        store.failing = set()
        assert sorted(registry) == names_in(given) == ["new", "old"]
        with pytest.raises(ToolConflictError):
            registry.register(Tool(name="new"))


def test_replacing_never_overwrites_what_another_process_has_just_stored() -> None:
    memory = Memory()
    with memory.open() as one, memory.open() as two, Registry(storage=one) as registry:
        registry.register(Tool(name="old"))
        two.save(Tool(name="new", description="Theirs."))
        with pytest.raises(ToolConflictError):
            registry.register_many([Tool(name="new")], replacing=["old"])
        assert two.load(["new"])["new"].tool.description == "Theirs."
        assert "old" in registry


def test_unregistering_removes_what_is_there_now_and_says_what_it_was() -> None:
    memory = Memory()
    with memory.open() as one, memory.open() as two, Registry(storage=one) as registry:
        registry.register(Tool(name="x", description="Mine."))
        two.save(Tool(name="x", description="Theirs."))
        assert registry.unregister("x").description == "Theirs."
        registry.register(Tool(name="y"))
        two.delete("y")
        with pytest.raises(ToolNotFoundError):
            registry.unregister("y")


def test_a_change_that_could_not_be_read_is_shown_later() -> None:
    memory = Memory()
    store, given = wayward(memory)
    tried = threading.Event()
    with Registry(storage=given) as registry, memory.open() as other:
        store.failing = {"load"}
        store.before = {"load": tried.set}
        other.save(Tool(name="x"))
        store.failing = set()
        assert seen(registry, lambda: "x" in registry)


def test_a_batch_that_another_process_registers_too_is_settled_in_one_round() -> None:
    memory = Memory()
    store, given = wayward(memory)
    rounds: list[None] = []
    tools = [Tool(name=f"tool_{number}") for number in range(50)]
    with Registry(storage=given) as registry, memory.open() as other:
        other.save_many(tools)
        store.before = {"save_many": lambda: rounds.append(None)}
        report = registry.register_many(tools, on_conflict="skip")
        assert len(report.skipped) == 50
        assert len(rounds) <= 1


def test_groups_and_policies_stay_when_the_definition_is_edited() -> None:
    memory = Memory()
    with memory.open() as one, memory.open() as two, Registry(storage=one) as registry:
        registry.register(Tool(name="danger"), access=Access(deny=["*"]))
        registry.register(Tool(name="limited"), groups=["risky"])
        registry.disable_group("risky")
        told = threading.Event()
        one.watch(lambda _: told.set())  # after the registry, which watches longer
        two.save_many(Tool(name=name, description="Edited.") for name in ("danger", "limited"))
        assert told.wait(5)
        assert registry.get("danger").description == "Edited."
        assert registry.get("limited").description == "Edited."
        assert registry.tools() == ()


def _count(path: str) -> None:
    registry = Registry(storage=path)
    registry.register(send_email)
    for _ in range(11):
        registry.call("send_email", {"to": "me"})


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_calls_of_a_short_child_of_multiprocessing_are_counted(tmp_path: Path) -> None:
    path = str(tmp_path / "usage.db")
    child = multiprocessing.get_context("fork").Process(target=_count, args=(path,))
    child.start()
    child.join(15)
    with open_store(path) as store:
        assert store.usage()["send_email"].use_frequency == 11


def test_readers_and_functions_never_wait_for_a_slow_store() -> None:
    store, given = wayward(Memory())
    entered, go_on = threading.Event(), threading.Event()
    with Registry(storage=given) as registry:

        def wait() -> None:
            entered.set()
            assert go_on.wait(5)

        store.before = {"save_many": wait}
        thread = threading.Thread(target=registry.register, args=(Tool(name="slow"),))
        thread.start()
        assert entered.wait(5)
        registry.register(send_email)
        assert registry.call("send_email", {"to": "me"}) == "sent to me"
        registry.unregister("send_email")
        with pytest.raises(ToolConflictError):

            def slow() -> None:
                """Takes a name that is being stored."""

            registry.register(slow)
        go_on.set()
        thread.join(5)
        assert list(registry) == ["slow"]


@pytest.mark.parametrize("fails", [False, True])
def test_skipping_gives_the_tool_that_another_thread_is_just_storing(fails: bool) -> None:
    store, given = wayward(Memory())
    entered = threading.Event()
    with Registry(storage=given) as registry, ThreadPoolExecutor() as threads:

        def wait() -> None:
            entered.set()
            # Until the other has been turned away: it waits for the lock that is held here.
            assert turned_away.wait(5)
            if fails:
                raise OSError("The disk is full.")

        turned_away = threading.Event()
        store.before = {"save_many": wait}
        storing = threads.submit(registry.register, Tool(name="slow", description="stored"))
        assert entered.wait(5)

        def slow() -> None:
            """Come second."""

        skipping = threads.submit(registry.register, slow, on_conflict="skip")
        with suppress(TimeoutError):
            skipping.result(0.05)
        turned_away.set()
        assert skipping.result(5).description == ("Come second." if fails else "stored")
        assert (storing.exception(5) is not None) is fails


def test_definitions_from_before_are_stored_and_closing_takes_them_off() -> None:
    with Memory().open() as store:
        registry = Registry()
        registry.register_many([Tool(name="idea"), send_email])
        registry.keep_in(store)
        assert names_in(store) == ["idea"]
        with pytest.raises(RuntimeError, match="storage already"):
            registry.keep_in(store)
        registry.close()
        assert list(registry) == ["send_email"]
        store.delete("idea")
        registry.keep_in(store)
        assert list(registry) == ["send_email"]
        registry.close()


def test_what_is_stored_already_wins_over_a_definition_from_before() -> None:
    with Memory().open() as store:
        store.save(Tool(name="idea", description="Stored."))
        registry = Registry()
        registry.register(Tool(name="idea", description="From before."))
        registry.keep_in(store)
        assert registry.get("idea").description == "Stored."
        registry.close()


@pytest.mark.parametrize("name", ["tools.json", "tools.db"])
def test_a_registry_that_is_forgotten_lets_go_of_everything(tmp_path: Path, name: str) -> None:
    before = threading.active_count()
    registry = Registry(storage=tmp_path / name)
    registry.register(Tool(name="x"))
    registry.register(send_email)
    registry.call("send_email", {"to": "me"})
    reference = weakref.ref(registry)
    del registry
    gc.collect()
    assert reference() is None
    assert threading.active_count() <= before
    with open_store(tmp_path / name) as store:
        assert names_in(store) == ["x"]
        assert store.usage()["send_email"].use_frequency == 1


def test_what_cannot_be_a_storage_is_refused_in_words() -> None:
    with pytest.raises(TypeError, match="URL, a path, or a store"):
        Registry(storage=cast("Any", 123))


def test_a_store_that_cannot_be_read_is_given_up_at_once() -> None:
    store, given = wayward(Memory())
    store.failing = {"load_all"}
    registry = Registry()
    with pytest.raises(StorageError):
        registry.keep_in(given)
    assert registry.storage is None
    store.failing = set()
    registry.keep_in(given)
    registry.close()


def test_a_thousand_changes_are_announced_without_doubles() -> None:
    memory = Memory()
    announced: list[str] = []
    with memory.open() as one, memory.open() as two, Registry(storage=one) as registry:
        registry.subscribe(lambda change: announced.extend(it.name for it in change.added))
        for number in range(200):
            registry.register(Tool(name=f"mine_{number}"))
        two.save_many(Tool(name=f"theirs_{number}") for number in range(200))
        assert seen(registry, lambda: len(registry) == 400)
    assert len(announced) == len(set(announced)) == 400


def test_a_frozen_mapping_is_stored_like_any_other() -> None:
    with Memory().open() as store, Registry(storage=store) as registry:
        registry.register(Tool(name="x", input_schema=freeze({"type": "object"})))
        assert store.load(["x"])["x"].tool.input_schema == {"type": "object"}
