import itertools
import os
import signal
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pegboard.errors import RevisionConflictError, StorageError, StoreUnavailableError
from pegboard.model import Tool
from pegboard.storage import Store, StoreChange, Use, open_store
from pegboard.storage.postgres.connection_pool import MAX_CONNECTIONS, ConnectionPool, parse_url
from pegboard.storage.postgres.store import PostgresStore
from pegboard.testing.store_watching import RecordingWatcher
from tests.storage.postgres_server import How, PostgresServer, database_of
from tests.storage.postgres_wire import Moment, Wire

WHEN = datetime(2026, 11, 16, 2, tzinfo=UTC)
SECONDS = "pegboard.storage.postgres.transactions.RETRY_SECONDS"


@pytest.fixture
def wire(postgres_server: PostgresServer) -> Iterator[Wire]:
    with Wire(postgres_server) as it:
        yield it


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pegboard.storage.postgres.transactions.MOST_IN_A_BATCH", 10)


def tools(count: int) -> list[Tool]:
    return [Tool(name=f"tool-{number:03}") for number in range(count)]


def names(store: Store) -> list[str]:
    return [it.tool.name for it in store.load_all()]


def once(work: Callable[[], object]) -> Callable[[int, int], None]:
    """Do something in mid-transaction, the first time that there is progress."""
    times = itertools.count()

    def on_progress(done: int, total: int) -> None:
        assert done <= total
        if next(times) == 0:
            work()

    return on_progress


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("how", ["fast", "immediate"])
def test_a_server_restarted_in_mid_transaction_costs_nothing(
    postgres_server: PostgresServer, postgres_url: str, how: How
) -> None:
    with open_store(postgres_url) as store:
        wanted = tools(25)
        store.save_many(wanted, on_progress=once(lambda: postgres_server.restart(how)))
        assert names(store) == [it.name for it in wanted]


@pytest.mark.usefixtures("small_batches")
def test_connections_cut_in_mid_transaction_cost_nothing(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    with open_store(postgres_url) as store:
        store.save_many(
            tools(25),
            expected=None,
            on_progress=once(lambda: postgres_server.cut_connections(postgres_url)),
        )
        assert len(names(store)) == 25
        # Now those that no thread used are dead.
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda _: names(store), range(8)))
        assert postgres_server.cut_connections(postgres_url) > 0
        assert store.delete("tool-000")
        assert len(names(store)) == 24


@pytest.mark.usefixtures("small_batches")
def test_progress_that_is_told_never_goes_back(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    told: list[int] = []

    def on_progress(done: int, total: int) -> None:
        told.append(done)
        if told == [10, 20]:
            postgres_server.cut_connections(postgres_url)

    with open_store(postgres_url) as store:
        store.save_many(tools(35), on_progress=on_progress)
        assert len(names(store)) == 35
    assert told == [10, 20, 30, 35]


@pytest.mark.usefixtures("small_batches")
def test_writing_while_being_told_of_the_progress_is_refused_at_once(postgres_url: str) -> None:
    with open_store(postgres_url) as store:
        for write in (
            lambda: store.save(Tool(name="more")),
            lambda: store.add_usage({"more": Use(1, WHEN)}),
            lambda: store.namespace("room").put("key", 1),
        ):
            with pytest.raises(StorageError, match="progress"):
                store.save_many(tools(25), on_progress=once(write))
            assert names(store) == []
        # Reading is another matter, and so is writing afterwards.
        seen: list[list[str]] = []
        store.save_many(tools(25), on_progress=once(lambda: seen.append(names(store))))
        assert seen == [[]]
        assert len(names(store)) == 25


def refusal(code: str) -> bytes:
    fields = b"".join(
        field.encode() + b"\0"
        for field in ("SFATAL", "VFATAL", f"C{code}", "Mthe database system is starting up", "")
    )
    return b"E" + (len(fields) + 4).to_bytes(4, "big") + fields


@pytest.mark.parametrize("limit", [5, 0], ids=["in time", "without any time"])
def test_opening_waits_for_a_server_that_is_starting_up(
    postgres_server: PostgresServer, postgres_url: str, limit: int
) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="pegboard-wire-") as folder,
        socket.socket(socket.AF_UNIX) as listener,
        ThreadPoolExecutor(1) as threads,
    ):
        place = Path(folder) / ".s.PGSQL.5432"
        listener.bind(str(place))
        listener.listen()
        url = f"postgresql://postgres@/{database_of(postgres_url)}?host={folder}"
        opening = threads.submit(open_store, f"{url}&connect_timeout={limit}")
        for _ in range(1 if limit == 0 else 3):
            client, _ = listener.accept()
            with client:
                client.recv(65536)
                client.sendall(refusal("57P03"))
        # From now on it is there.
        place.unlink()
        place.symlink_to(postgres_server.folder / place.name)
        listener.close()
        if limit:
            opening.result(timeout=10).close()
        else:
            with pytest.raises(StoreUnavailableError, match="starting up"):
                opening.result(timeout=10)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_what_was_lost_while_it_was_committed_is_done_once(
    wire: Wire, postgres_url: str, moment: Moment
) -> None:
    with open_store(wire.url(postgres_url)) as store:

        def cut_during(write: Callable[[], Any]) -> Any:
            wire.cut_at(b"COMMIT\0", moment)
            result = write()
            assert wire.was_cut.wait(5)
            return result

        cut_during(lambda: store.add_usage({"a": Use(1, WHEN)}))
        assert store.usage()["a"].use_frequency == 1
        # A second attempt that did not know of the first would meet itself.
        revision = cut_during(lambda: store.save(Tool(name="a"), expected=None))
        assert store.load(["a"])["a"].revision == revision
        values = store.namespace("room")
        revision = cut_during(lambda: values.put("key", 1, expected=None))
        found = values.get("key")
        assert found is not None
        assert found.revision == revision
        assert cut_during(lambda: values.delete(["key"])) == 1
        assert cut_during(lambda: store.delete("a")) is True
        assert names(store) == []


def test_usage_counted_while_the_server_is_restarted_is_counted_exactly(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    stopping = threading.Event()
    counted = [0] * 6

    def count(number: int) -> None:
        while not stopping.is_set():
            store.add_usage({"all": Use(1, WHEN), f"of {number}": Use(2, WHEN)})
            counted[number] += 1

    with open_store(postgres_url) as store, ThreadPoolExecutor(6) as threads:
        jobs = [threads.submit(count, number) for number in range(6)]
        try:
            for how in ("immediate", "fast", "immediate"):
                before = sum(counted)
                for _ in range(250):
                    if stopping.wait(0.02) or sum(counted) > before + 20:
                        break
                postgres_server.restart(how)
        finally:
            stopping.set()
        for job in jobs:
            job.result(timeout=15)
        usage = store.usage()
        assert usage["all"].use_frequency == sum(counted)
        for number in range(6):
            assert usage[f"of {number}"].use_frequency == 2 * counted[number]


def test_a_server_that_stays_away_is_an_error_and_one_that_returns_is_not(
    postgres_server: PostgresServer, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(postgres_url) as store:
        store.save(Tool(name="a"))
        monkeypatch.setattr(SECONDS, 0.2)
        postgres_server.stop()
        try:
            with pytest.raises(StoreUnavailableError):
                store.save(Tool(name="b"))
            with pytest.raises(StoreUnavailableError):
                store.load_all()
            with pytest.raises(StoreUnavailableError), store.elected("job"):
                pass
            with pytest.raises(StoreUnavailableError):
                store.watch(lambda change: None)
            with pytest.raises(StoreUnavailableError):
                open_store(postgres_url)
        finally:
            postgres_server.start()
        assert names(store) == ["a"]


def test_in_doubt_the_error_says_so(
    wire: Wire, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SECONDS, 0.2)
    with open_store(wire.url(postgres_url)) as store:
        wire.cut_at(b"COMMIT\0", "before")
        wire.refuse_connections()
        with pytest.raises(StoreUnavailableError, match="not known whether the data was saved"):
            store.save(Tool(name="a"))


def test_closing_ends_the_waiting_for_a_server(
    postgres_server: PostgresServer, postgres_url: str, wire: Wire
) -> None:
    store = open_store(wire.url(postgres_url))
    wire.go_down()
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(store.load_all)
        assert wire.refused.wait(5)
        store.close()
        with pytest.raises(StorageError, match="closed"):
            waiting.result(timeout=5)


@pytest.mark.parametrize("setting", ["statement_timeout", "lock_timeout"])
def test_what_takes_too_long_is_given_up_and_leaves_nothing(
    postgres_url: str, setting: str
) -> None:
    with open_store(postgres_url) as store, psycopg.connect(postgres_url) as stranger:
        revision = store.save(Tool(name="a"))
        stranger.execute("SELECT * FROM pegboard.tenants FOR UPDATE")
        # Only for what has to fail: on a busy machine anything may take so long.
        set_for_now(store, f"{setting} = '100ms'")
        with pytest.raises(StoreUnavailableError, match=setting):
            store.save(Tool(name="b"))
        set_for_now(store, f"{setting} = '30s'")
        stranger.rollback()
        assert names(store) == ["a"]
        assert store.save(Tool(name="b")) == revision + 1


def set_for_now(store: Store, setting: str) -> None:
    """Change the one connection of a store that only one thread has used."""
    assert isinstance(store, PostgresStore)
    with store._connections.one() as connection:  # pyright: ignore[reportPrivateUsage]
        connection.execute(f"SET {setting}".encode())


def test_a_full_pool_makes_callers_wait_but_not_for_ever(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections = ConnectionPool(*parse_url(postgres_url))
    with ExitStack() as stack:
        for _ in range(MAX_CONNECTIONS):
            stack.enter_context(connections.one())
        monkeypatch.setattr("pegboard.storage.postgres.connection_pool.POOL_TIMEOUT", 0.05)
        with pytest.raises(StoreUnavailableError, match="in use"):
            stack.enter_context(connections.one())
    with connections.one() as connection:
        assert connection.execute("SELECT 1").fetchall() == [(1,)]
    connections.close()


def test_two_who_wait_for_each_other_are_sorted_out(postgres_url: str) -> None:
    with open_store(postgres_url) as store, ThreadPoolExecutor(1) as threads:
        store.add_usage({"a": Use(1, WHEN), "b": Use(1, WHEN)})
        with psycopg.connect(postgres_url) as stranger:
            stranger.execute("SELECT * FROM pegboard.usage WHERE name = 'b' FOR UPDATE")
            waiting = threads.submit(store.add_usage, {"a": Use(1, WHEN), "b": Use(1, WHEN)})
            with psycopg.connect(postgres_url, autocommit=True) as observer:
                blocked = "SELECT 1 FROM pg_locks WHERE NOT granted"
                while not observer.execute(blocked).fetchall():
                    pass
            try:
                stranger.execute("SELECT * FROM pegboard.usage WHERE name = 'a' FOR UPDATE")
            except psycopg.errors.DeadlockDetected:
                stranger.rollback()
        waiting.result(timeout=10)
        assert {name: it.use_frequency for name, it in store.usage().items()} == {"a": 2, "b": 2}


def test_a_session_that_stops_answering_is_given_up(
    postgres_server: PostgresServer, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(postgres_url) as store:
        store.save(Tool(name="a"))
        [[session]] = postgres_server.execute(
            f"SELECT pid FROM pg_stat_activity WHERE application_name = 'pegboard' "
            f"AND datname = '{database_of(postgres_url)}'"
        )
        # Only now: on a busy machine a sound session may be silent for so long.
        monkeypatch.setattr("pegboard.storage.postgres.connection_pool.SERVER_TIMEOUT", 0.3)
        os.kill(session, signal.SIGSTOP)
        try:
            assert names(store) == ["a"]
        finally:
            os.kill(session, signal.SIGCONT)


def test_of_two_replicas_that_write_the_same_tool_one_wins(postgres_url: str) -> None:
    together = threading.Barrier(4)
    with ExitStack() as stack:
        replicas = [stack.enter_context(open_store(postgres_url)) for _ in range(4)]
        threads = stack.enter_context(ThreadPoolExecutor(4))
        revision: int | None = None

        def write(number: int) -> int | None:
            together.wait(timeout=5)
            try:
                tool = Tool(name="a", description=str(number))
                return replicas[number].save(tool, expected=revision)
            except RevisionConflictError as error:
                assert error.expected == revision  # noqa: PT017 - the other outcome
                return None

        for _ in range(20):
            results = list(threads.map(write, range(4)))
            won = [it for it in results if it is not None]
            assert len(won) == 1
            for replica in replicas:
                kept = replica.load(["a"])["a"]
                assert (kept.revision, kept.tool.description) == (won[0], str(results.index(*won)))
            [revision] = won


def test_a_watcher_catches_up_when_the_server_returns(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    told = RecordingWatcher()
    with open_store(postgres_url) as store, open_store(postgres_url) as other:
        store.watch(told)
        postgres_server.stop()
        postgres_server.start()
        other.save(Tool(name="a"))
        other.namespace("room").put("key", 1)
        assert told.wait(name="a")
        assert told.wait(namespace="room")
        # By announcement again, not only because it had to connect.
        other.delete("a")
        other.save(Tool(name="b"))
        assert told.wait(name="b")


def test_a_watcher_behind_a_cut_wire_catches_up_by_revision(wire: Wire, postgres_url: str) -> None:
    told = RecordingWatcher()
    with open_store(wire.url(postgres_url)) as store, open_store(postgres_url) as other:
        other.save(Tool(name="doomed"))
        store.watch(told)
        wire.go_down()
        other.delete("doomed")
        other.save(Tool(name="new"))
        other.namespace("room").put("key", 1)
        assert wire.refused.wait(5)
        assert told.changes == []
        wire.come_up()
        assert told.wait(name="new")
        assert told.changes == [
            StoreChange(tools=frozenset({"doomed", "new"}), namespaces=frozenset({"room"}))
        ]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE pegboard.tenants SET horizon = revision",
        "UPDATE pegboard.tenants SET revision = 1",
        "TRUNCATE pegboard.tenants",
    ],
    ids=["traces were removed", "a backup was restored", "nothing is left"],
)
def test_a_watcher_that_cannot_know_what_it_missed_is_told_everything(
    wire: Wire, postgres_server: PostgresServer, postgres_url: str, statement: str
) -> None:
    told = RecordingWatcher()
    with open_store(wire.url(postgres_url)) as store, open_store(postgres_url) as other:
        other.save_many(tools(3))
        other.delete("tool-001")
        store.watch(told)
        wire.go_down()
        other.delete("tool-002")
        postgres_server.execute(statement, url=postgres_url)
        wire.come_up()
        assert told.wait(name="anything")
        assert told.changes == [StoreChange(everything=True)]


def test_who_loses_the_connection_is_no_longer_elected(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    with open_store(postgres_url) as store, open_store(postgres_url) as other:
        with store.elected("job") as first:
            assert first
            with other.elected("job") as second, other.elected("another job") as alone:
                assert (second, alone) == (False, True)
            with open_store(postgres_url, tenant="else") as stranger, stranger.elected("job") as it:
                assert it
            postgres_server.cut_connections(postgres_url)
            with other.elected("job") as second:
                assert second
        with store.elected("job") as again:
            assert again


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_connection_that_is_lost_while_a_job_is_left_does_no_harm(
    wire: Wire, postgres_url: str, moment: Moment
) -> None:
    with open_store(wire.url(postgres_url)) as store, open_store(postgres_url) as other:
        with store.elected("job") as first:
            assert first
            wire.cut_at(b"pg_advisory_unlock", moment)
        assert wire.was_cut.wait(5)
        patience = threading.Event()
        # The server notices by itself that the connection is gone.
        while not elected_for_a_moment(other):
            patience.wait(0.02)


def elected_for_a_moment(store: Store) -> bool:
    with store.elected("job") as elected:
        return elected
