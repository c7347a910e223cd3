"""A registry with a store: durable before it is shown, shared with other processes, counted."""

import gc
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from pegboard import (
    CatalogChange,
    NotImplementedToolError,
    Registry,
    StorageError,
    Temperature,
    Tool,
    ToolConflictError,
    Usage,
)
from pegboard.model import LazyTool
from pegboard.registry.usage_counter import UsageCounter
from pegboard.storage import Store, StoredTool, open_store
from pegboard.testing import Memory

SCHEMA = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}
MAIL = Tool(name="send_email", description="Send.", input_schema=SCHEMA, tags=("mail",))


class RefusingStore:
    """A store that can be told to refuse every write."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.broken = False

    def __getattr__(self, name: str) -> Any:
        if self.broken and name in {"save_many", "delete", "add_usage"}:
            raise StorageError("The disk is full.", url=self._store.url)
        return getattr(self._store, name)


@pytest.fixture(params=["tools.json", "tools.db"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / request.param


@pytest.fixture
def memory() -> Memory:
    return Memory()


@pytest.mark.covers("R-REG-11", "R-REG-19")
def test_what_was_registered_is_there_in_the_next_run(path: Path) -> None:
    with Registry(storage=path) as registry:
        registry.register(MAIL)
    with Registry(storage=path) as registry:
        assert registry.get("send_email") == MAIL
        assert registry.describe()["send_email"]["input_schema"] == SCHEMA
        with pytest.raises(NotImplementedToolError):
            registry.call("send_email", {"to": "me"})


def test_a_url_and_an_open_store_work_like_a_path(tmp_path: Path) -> None:
    with Registry(storage=f"sqlite://{tmp_path}/tools.db") as registry:
        registry.register(MAIL)
    with open_store(tmp_path / "tools.db") as store:
        with Registry(storage=store) as registry:
            assert "send_email" in registry
        assert len(store.load_all()) == 1, "a store that was given is not closed"


@pytest.mark.covers("R-REG-33", "R-REG-34")
def test_a_batch_is_stored_in_one_step_and_asked_for_in_one(path: Path) -> None:
    tools = [Tool(name=f"tool_{number}") for number in range(200)]
    with Registry(storage=path) as registry:
        assert len(registry.register_many(tools).registered) == 200
        wanted = ["tool_3", "tool_150", "absent"]
        assert list(registry.get_many(wanted)) == ["tool_3", "tool_150"]
    with open_store(path) as store:
        assert list(store.load(wanted)) == ["tool_3", "tool_150"]


def test_functions_come_with_the_program_and_are_not_stored(memory: Memory) -> None:
    with memory.open() as store, Registry(storage=store) as registry:

        def double(number: int) -> int:
            return 2 * number

        registry.register(double)
        assert registry.call("double", {"number": 2}) == 4
        assert store.load_all() == []
        registry.unregister("double")


def test_unregistering_forgets_the_stored_definition(path: Path) -> None:
    with Registry(storage=path) as registry:
        registry.register(MAIL)
        registry.unregister("send_email")
    with Registry(storage=path) as registry:
        assert len(registry) == 0


def test_a_function_hides_a_stored_definition_and_leaves_it_in_the_store(memory: Memory) -> None:
    def send_email(to: str) -> str:
        return f"sent to {to}"

    with memory.open() as store:
        store.save(MAIL)
        with Registry(storage=store) as registry:
            with pytest.raises(ToolConflictError):
                registry.register(send_email)
            registry.register(send_email, on_conflict="override")
            assert registry.call("send_email", {"to": "me"}) == "sent to me"
        with Registry(storage=store) as registry:
            assert registry.get("send_email") == MAIL


def test_a_change_of_another_process_is_shown_and_announced(memory: Memory) -> None:
    changes: list[tuple[str, ...]] = []
    seen = threading.Event()
    with memory.open() as store, memory.open() as other, Registry(storage=store) as registry:

        def note(change: CatalogChange) -> None:
            changes.append(tuple(tool.name for tool in (*change.added, *change.removed)))
            seen.set()

        registry.subscribe(note)
        other.save(MAIL)
        assert seen.wait(5)
        assert registry.get("send_email") == MAIL
        seen.clear()
        other.delete("send_email")
        assert seen.wait(5)
        assert "send_email" not in registry
    assert changes == [("send_email",), ("send_email",)]


def test_two_processes_cannot_both_register_a_name(memory: Memory) -> None:
    with (
        memory.open() as one,
        memory.open() as two,
        Registry(storage=one) as first,
        Registry(storage=two) as second,
    ):
        first.register(MAIL)
        with pytest.raises(ToolConflictError):
            second.register(Tool(name="send_email", description="Mine."))
        assert second.get("send_email") == MAIL
        renamed = second.register(Tool(name="send_email"), on_conflict="rename")
        assert renamed.name == "send_email_2"
        second.register(Tool(name="send_email", description="Mine."), on_conflict="override")
        assert two.load(["send_email"])["send_email"].tool.description == "Mine."
        report = second.register_many(
            [Tool(name="send_email"), Tool(name="new")], on_error="report"
        )
        assert [it.index for it in report.rejected] == [0]
        assert [it.name for it in report.registered] == ["new"]


def test_what_cannot_be_written_is_not_shown(memory: Memory) -> None:
    store = RefusingStore(memory.open())
    with Registry(storage=cast("Store", store)) as registry:
        registry.register(MAIL)
        store.broken = True
        with pytest.raises(StorageError):
            registry.register(Tool(name="other"))
        with pytest.raises(StorageError):
            registry.unregister("send_email")
        assert list(registry) == ["send_email"]
        store.broken = False
        assert [it.tool.name for it in store.load_all()] == ["send_email"]


def test_what_json_cannot_hold_is_rejected_alone(memory: Memory) -> None:
    odd = Tool(name="odd", description="half a letter: \ud800")
    with memory.open() as store, Registry(storage=store) as registry:
        report = registry.register_many([MAIL, odd], on_error="report")
        assert [it.index for it in report.rejected] == [1]
        assert list(registry) == ["send_email"]


@pytest.mark.covers("R-REG-10")
def test_executed_calls_are_counted_and_refused_ones_are_not(path: Path) -> None:
    began = datetime.now(UTC)

    def double(number: int) -> int:
        return 2 * number

    with Registry(storage=path) as registry:
        registry.register(double)
        for number in range(3):
            registry.call("double", {"number": number})
        with pytest.raises(ValueError, match="number"):
            registry.call("double", {"number": "many"})
        found = registry.usage()["double"]
        assert found.use_frequency == 3
        assert found.last_used is not None
        assert found.last_used >= began - timedelta(seconds=1)
    with Registry(storage=path) as registry:
        assert registry.usage(["double"]) == {"double": found}
        assert registry.usage(["other"]) == {}


def test_what_could_not_be_counted_is_counted_later(memory: Memory) -> None:
    store = RefusingStore(memory.open())
    with Registry() as registry:
        registry.register(noop)
        counter = UsageCounter(cast("Store", store))
        registry.observe(counter)
        registry.call("noop", {})
        store.broken = True
        with pytest.raises(StorageError):
            counter.flush()
        registry.call("noop", {})
        store.broken = False
        counter.close()
    assert store.usage()["noop"].use_frequency == 2


def noop() -> None:
    """Do nothing."""


def test_usage_without_a_storage_says_what_to_do() -> None:
    with pytest.raises(TypeError, match="storage"):
        Registry().usage()


@pytest.mark.covers("R-REG-30")
def test_hot_tools_are_loaded_first_and_cold_ones_stay_unread(path: Path) -> None:
    now = datetime.now(UTC)
    with open_store(path) as store:
        store.save_many(Tool(name=f"tool_{number}", input_schema=SCHEMA) for number in range(20))
        store.set_usage(
            {
                "tool_7": Usage(use_frequency=50, last_used=now),
                "tool_9": Usage(use_frequency=12, last_used=now),
                "tool_3": Usage(use_frequency=4, last_used=now),
                "tool_5": Usage(use_frequency=30, last_used=now - timedelta(days=45)),
            }
        )
    with Registry(storage=path) as registry:
        assert list(registry)[:4] == ["tool_7", "tool_5", "tool_9", "tool_3"]
        assert read(registry.get("tool_7"))
        assert not read(registry.get("tool_1"))
        warmth = {name: it.temperature() for name, it in registry.usage().items()}
        assert warmth["tool_7"] is Temperature.HOT
        assert warmth["tool_5"] is Temperature.WARM


def read(tool: Tool) -> bool:
    """Whether the schema of a stored tool has been looked at."""
    slot = Tool.__dict__["input_schema"]
    return isinstance(tool, LazyTool) and isinstance(slot.__get__(tool), dict)


@pytest.mark.covers("R-REG-30")
@pytest.mark.parametrize(
    ("uses", "idle_days", "warmth"),
    [
        (0, 0, "cold"),
        (2, 0, "cold"),
        (3, 0, "warm"),
        (9, 29, "warm"),
        (10, 0, "hot"),
        (10, 29, "hot"),
        (10, 30, "warm"),
        (1000, 59, "warm"),
        (1000, 60, "cold"),
        (3, 60, "cold"),
    ],
)
def test_a_tool_cools_down_while_it_is_not_called(uses: int, idle_days: int, warmth: str) -> None:
    now = datetime(2026, 11, 16, tzinfo=UTC)
    usage = Usage(use_frequency=uses, last_used=now - timedelta(days=idle_days))
    assert usage.temperature(now=now) == warmth


def test_closing_twice_is_fine_and_leaves_the_tools_usable(path: Path) -> None:
    registry = Registry(storage=path)
    registry.register(noop)
    registry.close()
    registry.close()
    assert registry.call("noop", {}) is None


def test_sixteen_threads_lose_nothing(path: Path) -> None:
    barrier = threading.Barrier(16)
    failures: list[BaseException] = []
    with Registry(storage=path) as registry:

        def register(number: int) -> None:
            try:
                barrier.wait(5)
                for index in range(20):
                    registry.register(Tool(name=f"tool_{number}_{index}"))
            except BaseException as error:  # noqa: BLE001
                failures.append(error)

        threads = [threading.Thread(target=register, args=(it,)) for it in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == []
    with open_store(path) as store:
        assert len(store.load_all()) == 320


def test_a_stored_definition_takes_part_in_everything_a_tool_does(memory: Memory) -> None:
    with memory.open() as store:
        store.save(StoredTool(tool=MAIL, extras={"owner": "me"}))
        with Registry(storage=store) as registry:
            assert [tool.name for tool in registry.tools()] == ["send_email"]
            registry.register(Tool(name="send_email", description="New."), on_conflict="override")
        kept = store.load(["send_email"])["send_email"]
        assert kept.tool.description == "New."
        assert kept.extras == {"owner": "me"}


def test_nothing_is_left_running_after_close(path: Path) -> None:
    before = {thread.name for thread in threading.enumerate()}
    with Registry(storage=path) as registry:
        registry.register(noop)
        registry.call("noop", {})
    gc.collect()
    assert {thread.name for thread in threading.enumerate()} <= before


def test_a_program_that_just_ends_has_its_calls_counted(path: Path) -> None:
    program = f"""
from pegboard import Registry

def noop() -> None: ...

registry = Registry(storage={str(path)!r})
registry.register(noop)
registry.call("noop", {{}})
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=15)
    with open_store(path) as store:
        assert store.usage()["noop"].use_frequency == 1
