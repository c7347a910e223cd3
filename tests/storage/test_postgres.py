import os
import random
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from pegboard.errors import (
    ForkedProcessError,
    StorageError,
    StoreDamagedError,
    StoreUnavailableError,
    StoreVersionError,
)
from pegboard.model import Tool
from pegboard.storage import open_store
from pegboard.storage.postgres.connection_pool import connect, parse_url
from pegboard.storage.postgres.errors import translated
from pegboard.storage.postgres.migrations import MIGRATIONS, migrate
from pegboard.testing.store_watching import RecordingWatcher
from tests.storage.postgres_server import PostgresServer, database_of

KNOWN = MIGRATIONS[-1][0]


def tables_of(server: PostgresServer, url: str) -> set[str]:
    found = server.execute(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = 'pegboard'", url=url
    )
    return {name for [name] in found}


def sessions(server: PostgresServer, url: str) -> int:
    [[found]] = server.execute(
        f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{database_of(url)}'"
    )
    return found


def said(error: BaseException | None) -> str:
    """What an error says, and those that led to it."""
    return (
        "" if error is None else f"{error!r} {error} {said(error.__cause__ or error.__context__)}"
    )


def test_everything_is_in_a_schema_of_its_own(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    open_store(postgres_url).close()
    found = postgres_server.execute(
        "SELECT DISTINCT table_schema FROM information_schema.tables "
        "WHERE table_schema NOT IN ('information_schema', 'pg_catalog')",
        url=postgres_url,
    )
    assert found == [("pegboard",)]


def test_of_many_that_start_at_once_one_makes_the_tables(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    together = threading.Barrier(8)

    def start(number: int) -> None:
        together.wait(timeout=5)
        with open_store(postgres_url) as store:
            store.save(Tool(name=f"tool-{number}"))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(start, range(8)))
    versions = postgres_server.execute("SELECT version FROM pegboard.version", url=postgres_url)
    assert versions == [(number,) for number, _ in MIGRATIONS]
    with open_store(postgres_url) as store:
        assert len(store.load_all()) == 8


def test_a_newer_database_is_refused_and_not_touched(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    postgres_server.execute(
        "CREATE SCHEMA pegboard CREATE TABLE version (version integer)", url=postgres_url
    )
    postgres_server.execute("INSERT INTO pegboard.version VALUES (99)", url=postgres_url)
    with pytest.raises(StoreVersionError) as caught:
        open_store(postgres_url)
    assert (caught.value.found, caught.value.known) == (99, KNOWN)
    assert tables_of(postgres_server, postgres_url) == {"version"}


def test_steps_are_taken_one_by_one_and_a_failed_one_leaves_nothing(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    good = (1, ("CREATE TABLE pegboard.one (id integer)",))
    bad = (2, ("CREATE TABLE pegboard.two (id integer)", "SELECT 1 / 0"))
    better = (2, ("CREATE TABLE pegboard.two (id integer)",))
    with connect(*parse_url(postgres_url)) as connection:
        with pytest.raises(psycopg.errors.DivisionByZero):
            migrate(connection, url=postgres_url, migrations=(good, bad))
        assert tables_of(postgres_server, postgres_url) == {"version", "one"}
        migrate(connection, url=postgres_url, migrations=(good, better))
        assert tables_of(postgres_server, postgres_url) == {"version", "one", "two"}
        with pytest.raises(StoreVersionError):
            migrate(connection, url=postgres_url, migrations=(good,))


def test_a_role_that_may_not_create_schemas_needs_only_one_that_exists(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    name = f"guest_{random.randrange(10**9)}"
    postgres_server.execute(f"CREATE ROLE {name} LOGIN")
    guest = postgres_url.replace("postgres@", f"{name}@")
    try:
        with pytest.raises(StoreUnavailableError, match="pegboard"):
            open_store(guest)
        postgres_server.execute(f"CREATE SCHEMA pegboard AUTHORIZATION {name}", url=postgres_url)
        with open_store(guest) as store:
            store.save(Tool(name="a"))
            assert list(store.load(["a"])) == ["a"]
    finally:
        postgres_server.execute(f"DROP OWNED BY {name}", url=postgres_url)
        postgres_server.execute(f"DROP ROLE {name}")


def test_the_longest_keys_of_the_largest_letters_are_kept(postgres_url: str) -> None:
    pick = random.Random(4)
    # They compress badly, and four bytes each are the most.
    tenant, other, name, namespace, key = (
        "".join(chr(pick.randrange(0x20000, 0x2A000)) for _ in range(512)) for _ in range(5)
    )
    with open_store(postgres_url, tenant=tenant) as store:
        store.save(Tool(name=name))
        store.namespace(namespace).put(key, key)
        with open_store(postgres_url, tenant=tenant[:128] + other[128:]) as stranger:
            assert stranger.load_all() == []
    with open_store(postgres_url, tenant=tenant) as store:
        assert list(store.load([name])) == [name]
        assert store.namespaces() == [namespace]
        assert {it: found.value for it, found in store.namespace(namespace).items().items()} == {
            key: key
        }


def test_old_traces_of_what_was_deleted_are_removed_once_a_day(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    def traces() -> list[tuple[object, ...]]:
        return postgres_server.execute(
            "SELECT name FROM pegboard.tools WHERE body IS NULL UNION ALL "
            "SELECT key FROM pegboard.entries WHERE value IS NULL ORDER BY 1",
            url=postgres_url,
        )

    with open_store(postgres_url) as store:
        store.save_many([Tool(name="old"), Tool(name="new"), Tool(name="kept")])
        store.namespace("room").put_many({"old value": 1, "kept": 2})
        store.delete("old")
        store.namespace("room").delete(["old value"])
        for statement in (
            "UPDATE pegboard.tools SET deleted_at = '2020-01-01' WHERE deleted_at IS NOT NULL",
            "UPDATE pegboard.entries SET deleted_at = '2020-01-01' WHERE deleted_at IS NOT NULL",
        ):
            postgres_server.execute(statement, url=postgres_url)
        store.delete("new")
        open_store(postgres_url).close()
        assert traces() == [("new",), ("old",), ("old value",)]
        postgres_server.execute(
            "UPDATE pegboard.tenants SET cleaned_at = '2020-01-01'", url=postgres_url
        )
        open_store(postgres_url).close()
        assert traces() == [("new",)]
        assert [it.tool.name for it in store.load_all()] == ["kept"]
        [[horizon]] = postgres_server.execute(
            "SELECT horizon FROM pegboard.tenants", url=postgres_url
        )
        assert horizon == 4


def test_a_store_that_stays_open_is_cleaned_by_its_own_writes(
    postgres_server: PostgresServer,
    postgres_url: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("pegboard.storage.postgres.tombstone_cleanup.PAUSE", 0.0)
    monkeypatch.setattr("pegboard.storage.postgres.tombstone_cleanup.BATCH", 2)

    def traces() -> list[tuple[object, ...]]:
        return postgres_server.execute(
            "SELECT name FROM pegboard.tools WHERE body IS NULL ORDER BY 1", url=postgres_url
        )

    def grow_old() -> None:
        for statement in (
            "UPDATE pegboard.tools SET deleted_at = '2020-01-01' WHERE deleted_at IS NOT NULL",
            "UPDATE pegboard.tenants SET cleaned_at = '2020-01-01'",
        ):
            postgres_server.execute(statement, url=postgres_url)

    with open_store(postgres_url) as store:
        names = [f"old {number}" for number in range(5)]
        store.save_many([Tool(name=name) for name in (*names, "kept")])
        for name in names:
            store.delete(name)
        assert len(traces()) == 5
        grow_old()
        store.namespace("room").put("key", 0)
        assert traces() == []

        store.delete("kept")
        grow_old()
        for statement in (
            "CREATE FUNCTION pegboard.refuse() RETURNS trigger LANGUAGE plpgsql AS "
            "'BEGIN RAISE EXCEPTION ''Not now.''; END'",
            "CREATE TRIGGER refusing BEFORE DELETE ON pegboard.tools "
            "FOR EACH ROW EXECUTE FUNCTION pegboard.refuse()",
        ):
            postgres_server.execute(statement, url=postgres_url)
        # No write fails because nothing can be cleaned.
        store.namespace("room").put("key", 1)
        assert "not_cleaned" in caplog.text
        assert traces() == [("kept",)]


def test_marks_of_finished_writes_do_not_pile_up(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    with open_store(postgres_url) as store:
        for number in range(20):
            store.namespace("room").put("key", number)
    [[marks]] = postgres_server.execute("SELECT count(*) FROM pegboard.commits", url=postgres_url)
    assert marks == 1


def test_another_session_in_the_tables_is_told_from_damage_of_the_network(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    with open_store(postgres_url) as store:
        store.save(Tool(name="good"))
        store.save(Tool(name="bad"))
        store.namespace("room").put("key", 1)
        store.check()
        postgres_server.execute(
            "UPDATE pegboard.tools SET body = '{\"name\": 7}' WHERE name = 'bad'", url=postgres_url
        )
        with pytest.raises(StoreDamagedError, match="'bad'") as caught:
            store.load_all()
        assert caught.value.url == postgres_url
        assert caught.value.remedy == f"pegboard store migrate --store BACKUP '{postgres_url}'"
        assert "pg_restore" in str(caught.value)
        assert list(store.load(["good"])) == ["good"]
        store.delete("bad")
        store.check()
        postgres_server.execute("UPDATE pegboard.entries SET value = '{'", url=postgres_url)
        with pytest.raises(StoreDamagedError, match="'key'"):
            store.check()
        postgres_server.execute("DROP SCHEMA pegboard CASCADE", url=postgres_url)
        with pytest.raises(StoreDamagedError):
            store.load_all()


def test_the_url_may_say_otherwise_but_there_is_always_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PGOPTIONS", raising=False)
    monkeypatch.delenv("PGCONNECT_TIMEOUT", raising=False)
    plain = conninfo_to_dict(parse_url("postgresql://somewhere/db")[0])
    assert plain["connect_timeout"] == "5"
    assert "statement_timeout=30s" in str(plain["options"])
    chosen = conninfo_to_dict(
        parse_url(
            "POSTGRESQL://somewhere/db?connect_timeout=9&options=-c%20statement_timeout%3D7s"
        )[0]
    )
    assert chosen["connect_timeout"] == "9"
    # The last one counts.
    assert str(chosen["options"]).endswith("-c statement_timeout=7s")


def test_the_advice_for_a_slow_statement_is_a_url_that_can_be_used() -> None:
    advice = str(translated(psycopg.errors.QueryCanceled("too slow"), "postgresql://somewhere/db"))
    advised = re.search(r"`(\?.*?)`", advice)
    assert advised is not None
    chosen = conninfo_to_dict(parse_url(f"postgresql://somewhere/db{advised[1]}")[0])
    assert str(chosen["options"]).endswith("-c statement_timeout=60s")


@pytest.mark.parametrize("longer", ["50s", "50000", "1min"])
def test_a_statement_that_the_url_gives_more_time_is_not_cut_short(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, longer: str
) -> None:
    url = f"{postgres_url}&options=-c%20statement_timeout%3D{longer}"
    with connect(*parse_url(url)) as connection:
        monkeypatch.setattr("pegboard.storage.postgres.connection_pool.SERVER_TIMEOUT", 0.0)
        slow = connection.execute("SELECT 1 FROM pg_sleep(0.5)")
        assert slow.fetchall() == [(1,)]


def test_the_limits_hold_on_the_server(postgres_server: PostgresServer, postgres_url: str) -> None:
    with open_store(f"{postgres_url}&options=-c%20lock_timeout%3D3s") as store:
        assert store.load_all() == []
        conninfo, _ = parse_url(f"{postgres_url}&options=-c%20lock_timeout%3D3s")
        found = {
            name: postgres_server.execute(f"SHOW {name}", url=conninfo)[0][0]
            for name in ("statement_timeout", "lock_timeout", "synchronous_commit")
        }
    assert found == {"statement_timeout": "30s", "lock_timeout": "3s", "synchronous_commit": "on"}


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:hush@somewhere:port/db",
        "postgresql://me:hu/sh@somewhere/db",
        "postgresql://me:5432/hush@somewhere/db",
        "postgresql://me:hush@[somewhere/db",
        "postgresql://me:hush@somewhere/db?nonsense=1",
        "postgresql:me:hush",
        "postgresql://me:hush@127.0.0.1:1/db",
        "postgresql://me:hu?sh@127.0.0.1:1/db",
        "postgresql://me@127.0.0.1:1/db?password=hush",
    ],
)
def test_a_url_that_leads_nowhere_is_an_error_that_shows_no_password(url: str) -> None:
    with pytest.raises(StorageError) as caught:
        open_store(url)
    shown = f"{said(caught.value)} {caught.value.url}"
    assert not any(secret in shown for secret in ("hush", "hu/", "hu?"))


@pytest.mark.parametrize(
    "secret",
    ["hush@SECRET", "hush@SECRET@hush", "hush SECRET", "hush&SECRET=1", "hush\nSECRET", "h#SECRET"],
)
@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:{}@127.0.0.1:1/db",
        "postgresql://me:5432/{}@127.0.0.1:1/db",
        "postgresql://me@127.0.0.1:1/db?password={}",
        "postgresql://me@127.0.0.1:1/db?PASSWORD={}&connect_timeout=2",
    ],
)
def test_no_part_of_a_password_that_is_not_quoted_is_shown(url: str, secret: str) -> None:
    with pytest.raises(StorageError) as caught:
        open_store(url.format(secret))
    shown = f"{said(caught.value)} {caught.value.url}"
    assert "SECRET" not in shown
    assert "hush" not in shown


def test_a_url_with_an_at_sign_too_many_says_how_to_write_it() -> None:
    for url in ("postgresql://me:hush@x@somewhere/db", "postgresql://me@somewhere/d@b"):
        with pytest.raises(StorageError, match="%40"):
            open_store(url)
    conninfo, shown = parse_url("postgresql://me:hu%40sh@somewhere/d%40b?host=/a@b")
    assert conninfo_to_dict(conninfo)["password"] == "hu@sh"
    assert conninfo_to_dict(conninfo)["dbname"] == "d@b"
    assert "sh" not in shown


def test_what_is_not_a_tool_is_refused_in_words(postgres_url: str) -> None:
    with open_store(postgres_url) as store:
        for attempt in (store.save, lambda it: store.save_many([it])):
            with pytest.raises(TypeError, match="A store saves tools, not 'str'"):
                attempt(cast("Any", "x"))
        assert store.load_all() == []


def test_who_is_not_let_in_learns_why(postgres_server: PostgresServer, postgres_url: str) -> None:
    postgres_server.execute("CREATE ROLE locked LOGIN SUPERUSER PASSWORD 'open sesame'")
    try:
        with pytest.raises(StoreUnavailableError, match="password") as caught:
            open_store(postgres_url.replace("postgres@", "locked:knock-knock@"))
        assert "knock-knock" not in said(caught.value)
        with open_store(postgres_url.replace("postgres@", "locked:open%20sesame@")) as store:
            assert "sesame" not in f"{store.url} {store!r}"
    finally:
        postgres_server.execute("DROP OWNED BY locked", url=postgres_url)
        postgres_server.execute("DROP ROLE locked")


def test_a_database_that_there_is_not_is_unavailable(postgres_server: PostgresServer) -> None:
    with pytest.raises(StoreUnavailableError, match="nowhere"):
        open_store(postgres_server.url("nowhere"))


def test_a_database_that_cannot_hold_every_letter_is_refused(
    postgres_server: PostgresServer,
) -> None:
    url = postgres_server.new_database("ENCODING 'LATIN1' TEMPLATE template0")
    try:
        with pytest.raises(StoreUnavailableError, match="UTF8"):
            open_store(url)
        assert tables_of(postgres_server, url) == set()
    finally:
        postgres_server.drop_database(url)


def test_a_server_that_is_too_old_is_refused(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pegboard.storage.postgres.connection_pool.OLDEST_SERVER", 990000)
    with pytest.raises(StoreUnavailableError, match="use 99 or newer"):
        open_store(postgres_url)


def test_a_forked_child_is_refused_and_may_open_a_store_of_its_own(postgres_url: str) -> None:
    told = RecordingWatcher()
    with open_store(postgres_url) as store, store.elected("job") as elected:
        assert elected
        store.watch(told)
        store.save(Tool(name="parent"))
        child = os.fork()
        if child == 0:
            code = 1
            try:
                with pytest.raises(ForkedProcessError):
                    store.save(Tool(name="child"))
                with pytest.raises(ForkedProcessError):
                    store.load_all()
                store.close()
                with open_store(postgres_url) as own:
                    own.save(Tool(name="child"))
                    with own.elected("job") as also:
                        code = 1 if also else 0
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        assert told.wait(name="child")
        store.save(Tool(name="parent again"))
        assert told.wait(name="parent again")
        with open_store(postgres_url) as other, other.elected("job") as also:
            assert not also


def test_a_child_that_leaves_the_election_of_its_parent_ends_nothing(postgres_url: str) -> None:
    with open_store(postgres_url) as store:
        context = store.elected("job")
        assert context.__enter__()
        child = os.fork()
        if child == 0:
            context.__exit__(None, None, None)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        with open_store(postgres_url) as other, other.elected("job") as also:
            assert not also
        context.__exit__(None, None, None)
        with store.elected("job") as again:
            assert again


def test_a_job_that_was_left_can_be_had_at_once(postgres_url: str) -> None:
    with open_store(postgres_url) as one, open_store(postgres_url) as other:
        for store in (one, other) * 25:
            with store.elected("job") as elected:
                assert elected


def test_closing_leaves_no_session_on_the_server(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    store = open_store(postgres_url)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda number: store.save(Tool(name=f"tool-{number}")), range(32)))
    stop = store.watch(lambda change: None)
    stop()
    store.watch(lambda change: None)
    store.close()
    patience = threading.Event()
    # A session ends a moment after its connection.
    while sessions(postgres_server, postgres_url):
        patience.wait(0.02)
