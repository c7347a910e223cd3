"""A forked child is refused the registries, hubs and stores of its parent, and never hangs."""

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import anyio
import anyio.to_thread
import pytest

from pegboard import (
    CallRecord,
    Concurrency,
    ForkedProcessError,
    Hub,
    Registry,
    Store,
    Tool,
    open_store,
)
from pegboard.auth import ApiKeys, KeyGrant
from pegboard.model.fork_guard import GuardedLock
from pegboard.model.principal import OPERATOR
from pegboard.observe import Audit, History, JsonLines
from pegboard.upstream import NoCatalogCache
from tests.upstream.board_servers import script

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]

REFUSED = 7


def double(number: int) -> int:
    """Double a number."""
    return 2 * number


def in_child(work: Callable[[], object]) -> int:
    """Return 0 if the work went well in a forked child, `REFUSED` if it was refused there."""
    child = os.fork()
    if child == 0:
        _work_and_exit(work)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _work_and_exit(work: Callable[[], object]) -> NoReturn:
    # What waits for a thread of the parent is killed.
    signal.alarm(20)
    code = 1
    try:
        work()
        code = 0
    except ForkedProcessError:
        code = REFUSED
    finally:
        os._exit(code)


@contextmanager
def held(lock: GuardedLock) -> Generator[None]:
    """Hold a lock in another thread."""
    taken, release = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            taken.set()
            assert release.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    assert taken.wait(5)
    try:
        yield
    finally:
        release.set()
        thread.join()


def test_the_error_says_what_to_do_and_can_be_sent_to_another_process() -> None:
    error = ForkedProcessError("registry")
    assert str(error) == (
        "This registry belongs to the process that opened it: open it in the child, or use the "
        "start method `spawn`."
    )
    again = pickle.loads(pickle.dumps(error))
    assert (again.owner, again.code, str(again)) == ("registry", "forked_process", str(error))


USES_OF_A_REGISTRY: dict[str, Callable[[Registry], object]] = {
    "call": lambda it: it.call("double", {"number": 1}),
    "acall": lambda it: anyio.run(it.acall, "double", {"number": 1}),
    "register": lambda it: it.register(Tool(name="more")),
    "unregister": lambda it: it.unregister("double"),
    "get": lambda it: it.get("double"),
    "get_many": lambda it: it.get_many(["double"]),
    "is_definition": lambda it: it.is_definition("double"),
    "runs": lambda it: it.runs("double"),
    "tools": lambda it: it.tools(),
    "describe": lambda it: it.describe(),
    "search": lambda it: it.search("double"),
    "search_many": lambda it: it.search_many(["double"]),
    "search_engine": lambda it: it.search_engine,
    "add_searcher": lambda it: it.add_searcher("mine", list),  # type: ignore[arg-type]
    "usage": lambda it: it.usage(),
    "groups": lambda it: it.groups(),
    "disable_group": lambda it: it.disable_group("risky"),
    "enable_group": lambda it: it.enable_group("risky"),
    "subscribe": lambda it: it.subscribe(print),
    "observe": lambda it: it.observe(print),
    "keep_in": lambda it: it.keep_in("elsewhere.json"),
}


@pytest.mark.parametrize("use", USES_OF_A_REGISTRY.values(), ids=USES_OF_A_REGISTRY)
def test_a_registry_of_the_parent_is_refused(use: Callable[[Registry], object]) -> None:
    registry = Registry()
    registry.register(double)
    with (
        held(registry._catalog.lock),  # pyright: ignore[reportPrivateUsage]
        held(registry._catalog.writing),  # pyright: ignore[reportPrivateUsage]
    ):
        assert in_child(lambda: use(registry)) == REFUSED
    assert registry.call("double", {"number": 2}) == 4
    assert [it.tool.name for it in registry.search("double").hits] == ["double"]


def test_what_a_registry_gave_out_is_refused_too() -> None:
    registry = Registry()
    stop_telling, stop_observing = registry.subscribe(print), registry.observe(print)
    with held(registry._catalog.lock):  # pyright: ignore[reportPrivateUsage]
        assert in_child(stop_telling) == REFUSED
        assert in_child(stop_observing) == REFUSED


def test_a_registry_that_the_child_makes_itself_works() -> None:
    async def greet() -> str:
        return "hello"

    parents = Registry()
    parents.register_many([greet, double])
    assert parents.call("greet") == "hello"

    def child() -> None:
        own = Registry(concurrency=Concurrency(1))
        own.register_many([greet, double])
        assert own.call("greet") == "hello"
        assert own.call("double", {"number": 2}) == 4
        assert [it.tool.name for it in own.search("double").hits] == ["double"]

    assert in_child(child) == 0


def test_a_concurrency_limit_of_the_parent_is_refused() -> None:
    limit = Concurrency(1)

    def child() -> None:
        own = Registry(concurrency=limit)
        own.register(double)
        own.call("double", {"number": 2})

    with held(limit._lock):  # pyright: ignore[reportPrivateUsage]
        assert in_child(child) == REFUSED


@pytest.fixture(params=["tools.json", "tools.db"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / request.param


USES_OF_A_STORE: dict[str, Callable[[Store], object]] = {
    "load_all": lambda it: it.load_all(),
    "load": lambda it: it.load(["a"]),
    "save": lambda it: it.save(Tool(name="b")),
    "save_many": lambda it: it.save_many([Tool(name="b")]),
    "delete": lambda it: it.delete("a"),
    "usage": lambda it: it.usage(),
    "values": lambda it: it.namespace("settings").items(),
    "put": lambda it: it.namespace("settings").put("a", 1),
    "namespaces": lambda it: it.namespaces(),
    "watch": lambda it: it.watch(print),
    "elected": lambda it: it.elected("job").__enter__(),
    "fill_buckets": lambda it: it.fill_buckets({"a": 1.0}, most=60.0),
    "check": lambda it: it.check(),
}


@pytest.mark.parametrize("use", USES_OF_A_STORE.values(), ids=USES_OF_A_STORE)
def test_a_store_of_the_parent_is_refused(path: Path, use: Callable[[Store], object]) -> None:
    with open_store(path) as store:
        store.save(Tool(name="a"))
        assert in_child(lambda: use(store)) == REFUSED
        store.save(Tool(name="c"))
        assert {it.tool.name for it in store.load_all()} == {"a", "c"}


def test_a_child_that_closes_or_ends_leaves_the_store_to_its_parent(path: Path) -> None:
    told = threading.Event()
    with open_store(path) as store:
        stop = store.watch(lambda _: told.set())
        store.save(Tool(name="a"))
        assert told.wait(5)

        def child() -> None:
            before = sorted(path.parent.iterdir())
            stop()
            store.close()
            assert sorted(path.parent.iterdir()) == before

        assert in_child(child) == 0
        told.clear()
        store.save(Tool(name="b"))
        assert told.wait(5)
    with open_store(path) as again:
        assert {it.tool.name for it in again.load_all()} == {"a", "b"}


def test_a_child_may_open_the_same_store_itself(path: Path) -> None:
    with open_store(path) as store:
        store.save(Tool(name="parent"))

        def child() -> None:
            with open_store(path) as own:
                own.save(Tool(name="child"))

        assert in_child(child) == 0
        assert {it.tool.name for it in store.load_all()} == {"parent", "child"}


def test_a_child_that_leaves_a_registry_writes_no_usage_of_its_parent(path: Path) -> None:
    with Registry(storage=path) as registry:
        registry.register(double)
        registry.call("double", {"number": 1})
        assert in_child(registry.close) == 0
        assert registry.usage()["double"].use_frequency == 1
    with open_store(path) as store:
        assert store.usage()["double"].use_frequency == 1


ENDING = """
import gc, os, sys
from pegboard import Hub, Registry
from pegboard.observe import History
from pegboard.storage import open_store
def double(number: int) -> int:
    return 2 * number
store = open_store(sys.argv[1])
history = History(store)
registry = Registry(storage=store, observers=[history])
registry.register(double)
registry.call("double", {"number": 1})
child = os.fork()
if child == 0:
    del registry, history, store
    gc.collect()
    sys.exit()
assert os.waitpid(child, 0)[1] == 0
assert len(history.calls()) == 1
registry.close()
assert store.usage()["double"].use_frequency == 1
"""


def test_a_child_that_ends_as_programs_do_writes_nothing(path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", ENDING, str(path)],
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=30,
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


def test_a_history_and_an_audit_of_the_parent_are_refused(path: Path) -> None:
    record = CallRecord("double", 1.0, 0.1, "ok")
    with open_store(path) as store:
        for noted in (History(store), Audit(store)):
            noted(record)
            with held(noted._writing):  # pyright: ignore[reportPrivateUsage]
                assert in_child(lambda noted=noted: noted(record)) == REFUSED
                assert in_child(noted.flush) == REFUSED
                assert in_child(noted.close) == 0
            noted.close()
        assert len(History(store).calls()) == 1


def test_a_file_of_calls_of_the_parent_is_refused(tmp_path: Path) -> None:
    record = CallRecord("double", 1.0, 0.1, "ok")
    with JsonLines(tmp_path / "calls.jsonl") as lines:
        with held(lines._lock):  # pyright: ignore[reportPrivateUsage]
            assert in_child(lambda: lines(record)) == REFUSED
            assert in_child(lines.close) == 0
        lines(record)


def test_api_keys_of_the_parent_are_refused(path: Path) -> None:
    with open_store(path, tenant=OPERATOR) as store, ApiKeys(store) as keys:
        secret = keys.create(KeyGrant(name="ann")).secret
        assert in_child(keys.list) == REFUSED
        assert in_child(lambda: anyio.run(keys.authenticate, secret)) == REFUSED
        assert in_child(keys.close) == 0
        assert anyio.run(keys.authenticate, secret).scopes == {"call"}


USES_OF_A_HUB: dict[str, Callable[[Any], object]] = {
    "call": lambda it: it.call("mcp_light_pid"),
    "search": lambda it: it.search("pid"),
    "reload": lambda it: it.reload(),
    "start": lambda it: it.start(),
    "servers": lambda it: it.servers,
    "server": lambda it: it.server("light"),
    "origin": lambda it: it.origin("mcp_light_pid"),
    "toolset": lambda it: it.toolset(),
    "registry": lambda it: it.registry.tools(),
}


def test_a_hub_of_the_parent_is_refused_and_its_servers_go_on() -> None:
    with Hub.open_sync([script("light")], catalog_cache=NoCatalogCache()) as hub:
        pid = hub.call("mcp_light_pid").text()
        server, toolset = hub.server("light"), hub.toolset()
        for use in USES_OF_A_HUB.values():
            assert in_child(lambda use=use: use(hub)) == REFUSED
        assert in_child(server.refresh) == REFUSED
        assert in_child(lambda: server.request("tools/list")) == REFUSED
        assert in_child(lambda: toolset.call_sync("mcp_light_pid")) == REFUSED
        assert in_child(hub.close) == 0
        assert hub.call("mcp_light_pid").text() == pid


async def test_a_hub_is_refused_in_a_child_of_its_own_event_loop() -> None:
    async with Hub.open([script("light")], catalog_cache=NoCatalogCache()) as hub:
        pid = (await hub.call("mcp_light_pid")).text()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                signal.alarm(20)
                await hub.call("mcp_light_pid")
            except ForkedProcessError:
                await hub.close()
                code = REFUSED
            finally:
                os._exit(code)
        _, status = await anyio.to_thread.run_sync(os.waitpid, child, 0)
        assert os.waitstatus_to_exitcode(status) == REFUSED
        assert (await hub.call("mcp_light_pid")).text() == pid


def test_a_child_that_opens_a_hub_itself_has_servers_of_its_own() -> None:
    with Hub.open_sync([script("light")], catalog_cache=NoCatalogCache()) as hub:
        pid = hub.call("mcp_light_pid").text()

        def child() -> None:
            with Hub.open_sync([script("light")], catalog_cache=NoCatalogCache()) as own:
                assert own.call("mcp_light_pid").text() != pid

        assert in_child(child) == 0
        assert hub.call("mcp_light_pid").text() == pid
