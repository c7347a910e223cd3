"""API keys: made, shown once, checked, listed, rotated, revoked, in every kind of store."""

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import msgspec
import pytest
from anyio.to_thread import run_sync
from hypothesis import given
from hypothesis import strategies as st

from pegboard.auth import ApiKeys, KeyGrant, api_keys
from pegboard.auth.key_hash import SecretHash, digest_of, parse_key
from pegboard.auth.key_record import StoredKey, grant_of_maker, with_ends_of_makers
from pegboard.errors import ApiKeyNotFoundError, StorageError, UnauthenticatedError
from pegboard.model.principal import OPERATOR, Principal
from pegboard.storage import Store
from pegboard.testing import Memory
from pegboard.testing.store_watching import RecordingWatcher

T = TypeVar("T")
TEAM = KeyGrant(
    name="the build",
    tenant="team",
    scopes=("read", "call"),
    servers=("github", "mail*"),
    tools=("github_*", "mail_*"),
    calls_per_minute=60,
    concurrent_calls=4,
)


async def reason_of(keys: ApiKeys, credential: str) -> str:
    with pytest.raises(UnauthenticatedError) as refused:
        await keys.authenticate(credential)
    return refused.value.reason


def changed(store: Store, change: Callable[[], T]) -> T:
    """Make a change, and wait until a store has told everybody who watches it."""
    told = RecordingWatcher()
    stop = store.watch(told)
    response = change()
    assert told.wait(namespace=api_keys.KEYS)
    stop()
    return response


async def test_a_key_says_who_has_it_and_what_was_granted(keys: ApiKeys) -> None:
    made = keys.create(TEAM)
    assert await keys.authenticate(made.secret) == Principal(
        tenant="team",
        subject=f"pb_{made.key.id}",
        scopes=frozenset({"read", "call"}),
        servers=("github", "mail*"),
        tools=("github_*", "mail_*"),
        calls_per_minute=60,
        concurrent_calls=4,
    )


async def test_the_whole_life_of_a_key_in_every_store(open_operator: Callable[[], Store]) -> None:
    def begin() -> tuple[str, str, str]:
        with open_operator() as store, ApiKeys(store) as keys:
            made, other = keys.create(TEAM), keys.create(KeyGrant(tenant="other"))
            assert [it.id for it in keys.list(tenant="team")] == [made.key.id]
            assert {it.id for it in keys.list()} == {made.key.id, other.key.id}
            return made.key.id, made.secret, keys.rotate(made.key.id, overlap=60).secret

    def reopen() -> tuple[Store, ApiKeys]:
        store = open_operator()
        return store, ApiKeys(store)

    key, old, new = await run_sync(begin)
    store, keys = await run_sync(reopen)
    try:
        assert (await keys.authenticate(new)).subject == f"pb_{key}"
        assert (await keys.authenticate(old)).subject == f"pb_{key}"
        listed = await run_sync(keys.list)
        assert all(it.last_used is not None for it in listed if it.id == key)
        assert (await run_sync(keys.revoke, key)).revoked is not None
        assert await reason_of(keys, new) == await reason_of(keys, old) == "revoked"
    finally:
        await run_sync(keys.close)
        await run_sync(store.close)


@pytest.mark.covers("R-REG-40")
async def test_what_one_process_makes_and_revokes_all_know(
    open_operator: Callable[[], Store],
) -> None:
    def open_both() -> tuple[list[Store], list[ApiKeys]]:
        stores = [open_operator(), open_operator()]
        return stores, [ApiKeys(store) for store in stores]

    stores, (here, there) = await run_sync(open_both)
    try:
        made = await run_sync(changed, stores[1], partial(here.create, TEAM))
        assert (await there.authenticate(made.secret)).tenant == "team"
        await run_sync(changed, stores[1], partial(here.revoke, made.key.id))
        assert await reason_of(there, made.secret) == "revoked"
    finally:
        for thing in (here, there, *stores):
            await run_sync(thing.close)


async def test_a_key_is_good_as_soon_as_another_process_has_made_it(
    open_operator: Callable[[], Store],
) -> None:
    def open_both() -> tuple[list[Store], list[ApiKeys]]:
        stores = [open_operator(), open_operator()]
        return stores, [ApiKeys(store) for store in stores]

    stores, (here, there) = await run_sync(open_both)
    try:
        made = await run_sync(here.create, TEAM)
        assert (await there.authenticate(made.secret)).tenant == "team"
        newer = await run_sync(here.rotate, made.key.id)
        assert (await there.authenticate(newer.secret)).tenant == "team"
    finally:
        for thing in (here, there, *stores):
            await run_sync(thing.close)


def test_the_secret_is_nowhere_but_in_the_answer(memory: Memory) -> None:
    with memory.open(OPERATOR) as store, ApiKeys(store) as keys:
        made = keys.create(TEAM)
        _, secret = parse_key(made.secret) or ("", "")
        everything = str(
            {name: dict(store.namespace(name).items()) for name in store.namespaces()}
        ) + repr([made, keys.list(), keys.rotate(made.key.id, overlap=9)])
        assert secret not in everything
        assert str(msgspec.to_builtins(keys.list())).count("salt") == 0


def test_two_keys_of_the_same_secret_would_not_look_alike() -> None:
    one, two = SecretHash.of("00" * 32), SecretHash.of("00" * 32)
    assert one.salt != two.salt
    assert one.digest != two.digest
    assert digest_of("00" * 32, bytes.fromhex(one.salt)).hex() == one.digest


def test_secrets_and_ids_are_random_and_long(keys: ApiKeys) -> None:
    made = [keys.create(TEAM) for _ in range(20)]
    parsed = [parse_key(it.secret) for it in made]
    assert len({it for it in parsed if it is not None}) == 20
    assert {len(bytes.fromhex(secret)) for _, secret in filter(None, parsed)} == {32}


async def test_a_wrong_secret_and_an_unknown_key_get_the_same_answer(keys: ApiKeys) -> None:
    made = keys.create(TEAM)
    almost = made.secret[:-1] + ("0" if made.secret[-1] != "0" else "1")
    answers: set[str] = set()
    for credential in (almost, f"pb_{'a' * 12}_{'0' * 64}"):
        with pytest.raises(UnauthenticatedError) as refused:
            await keys.authenticate(credential)
        answers.add(f"{refused.value.reason} {refused.value}")
    assert answers == {"unknown This API key does not exist."}


async def test_only_who_has_the_secret_learns_that_the_key_was_revoked(keys: ApiKeys) -> None:
    made = keys.create(TEAM)
    keys.revoke(made.key.id)
    assert await reason_of(keys, made.secret) == "revoked"
    assert await reason_of(keys, f"pb_{made.key.id}_{'0' * 64}") == "unknown"


@given(
    text=st.text(max_size=100)
    | st.from_regex(r"pb_[a-z0-9]{0,13}_?[0-9a-fA-F]{0,65}\n?", fullmatch=True)
)
async def test_whatever_is_sent_it_is_a_key_or_an_authentication_that_failed(text: str) -> None:
    with Memory().open(OPERATOR) as store, ApiKeys(store) as keys:
        assert await reason_of(keys, text) in ("malformed", "unknown")


async def test_a_key_ends_when_it_expires(keys: ApiKeys, monkeypatch: pytest.MonkeyPatch) -> None:
    ends = time.time() + 3600
    made = keys.create(KeyGrant(expires=ends))
    assert (await keys.authenticate(made.secret)).expires == ends
    monkeypatch.setattr(time, "time", lambda: ends)
    assert await reason_of(keys, made.secret) == "expired"
    with pytest.raises(ValueError, match="no longer valid"):
        keys.rotate(made.key.id)


async def test_after_a_rotation_the_old_secret_is_good_for_the_overlap_and_no_longer(
    keys: ApiKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = keys.create(TEAM)
    began = time.time()
    new = keys.rotate(made.key.id, overlap=600)
    assert new.key.id == made.key.id
    old = await keys.authenticate(made.secret)
    assert old.expires is not None
    assert 600 <= old.expires - began < 660
    assert (await keys.authenticate(new.secret)).expires is None
    monkeypatch.setattr(time, "time", lambda: began + 700)
    assert await reason_of(keys, made.secret) == "expired"
    assert (await keys.authenticate(new.secret)).subject == old.subject


async def test_a_second_rotation_does_not_lengthen_the_life_of_the_first_secret(
    keys: ApiKeys,
) -> None:
    made = keys.create(TEAM)
    keys.rotate(made.key.id, overlap=100)
    first_end = (await keys.authenticate(made.secret)).expires
    keys.rotate(made.key.id, overlap=10_000)
    assert (await keys.authenticate(made.secret)).expires == first_end


async def test_without_an_overlap_the_old_secret_is_gone_at_once(keys: ApiKeys) -> None:
    made = keys.create(TEAM)
    new = [keys.rotate(made.key.id) for _ in range(10)][-1]
    assert await reason_of(keys, made.secret) == "unknown"
    assert (await keys.authenticate(new.secret)).tenant == "team"


@pytest.mark.parametrize("key", ["", "nobody", "a" * 12, "a\x00b", "ä" * 12, "x" * 9_999])
def test_there_is_nothing_to_do_to_a_key_that_there_is_not(keys: ApiKeys, key: str) -> None:
    for act in (keys.revoke, keys.rotate):
        with pytest.raises(ApiKeyNotFoundError) as missing:
            act(key)
        assert missing.value.key == key


@pytest.mark.parametrize(
    "grant",
    [
        {"tenant": OPERATOR},
        {"tenant": ""},
        {"tenant": "a\nb"},
        {"scopes": ()},
        {"scopes": ("write",)},
        {"servers": ()},
        {"servers": "github"},
        {"tools": ("x" * 999,)},
        {"tools": ("a\nb",)},
        {"tools": ("*",) * 999},
        {"name": "x" * 999},
        {"name": "\x1b[31m"},
        {"expires": 1.0},
        {"expires": float("nan")},
        {"expires": float("inf")},
        {"calls_per_minute": 0},
        {"concurrent_calls": -1},
        {"calls_per_minute": "many"},
    ],
)
def test_a_key_that_makes_no_sense_is_not_made(keys: ApiKeys, grant: dict[str, object]) -> None:
    with pytest.raises((ValueError, TypeError)):
        keys.create(KeyGrant(**grant))  # pyright: ignore[reportArgumentType]
    assert keys.list() == []


def test_keys_of_a_tenant_cannot_be_kept_in_its_own_store(memory: Memory) -> None:
    with memory.open("team") as store, pytest.raises(ValueError, match="operator"):
        ApiKeys(store)


async def test_a_damaged_key_opens_nothing_and_harms_no_other(
    memory: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    with memory.open(OPERATOR) as store, ApiKeys(store) as keys:
        good, bad, moved = keys.create(TEAM), keys.create(TEAM), keys.create(TEAM)
        values = store.namespace(api_keys.KEYS)
        for value in (7, {"id": bad.key.id}, {"tenant": OPERATOR}):
            kept = values.get(good.key.id)
            assert kept is not None
            broken = {**kept.value, "id": bad.key.id, **value} if isinstance(value, dict) else value
            broken = value if value == {"id": bad.key.id} else broken
            values.put(bad.key.id, broken)
            values.put(moved.key.id, {**kept.value})
            with ApiKeys(store) as others:
                assert (await others.authenticate(good.secret)).tenant == "team"
                assert await reason_of(others, bad.secret) == "unknown"
                assert await reason_of(others, moved.secret) == "unknown"
    assert "api_key_damaged" in caplog.text
    assert bad.key.id in caplog.text


@pytest.mark.parametrize("field", ["revoked", "expires", "tools", "servers", "secrets"])
async def test_a_field_whose_name_is_damaged_lifts_no_limit(memory: Memory, field: str) -> None:
    with memory.open(OPERATOR) as store, ApiKeys(store) as keys:
        made = keys.create(TEAM)
        keys.revoke(made.key.id)
        values = store.namespace(api_keys.KEYS)
        kept = values.get(made.key.id)
        assert kept is not None
        value = {f"{name[:-1]}_" if name == field else name: it for name, it in kept.value.items()}
        assert value != kept.value
        values.put(made.key.id, value)
        with ApiKeys(store) as others:
            assert await reason_of(others, made.secret) == "unknown"


def test_when_two_change_a_key_at_once_both_changes_count(memory: Memory) -> None:
    with memory.open(OPERATOR) as store, ApiKeys(store) as keys:
        made = keys.create(TEAM)
        with memory.open(OPERATOR) as other, ApiKeys(other) as others:
            threads = [
                threading.Thread(target=it.rotate, args=(made.key.id,), kwargs={"overlap": 60})
                for it in (keys, others)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            kept = store.namespace(api_keys.KEYS).get(made.key.id)
            assert kept is not None
            assert len(kept.value["secrets"]) == 3


async def test_uses_are_counted_by_all_processes_together(
    open_operator: Callable[[], Store],
) -> None:
    def open_both() -> tuple[list[Store], list[ApiKeys]]:
        stores = [open_operator(), open_operator()]
        return stores, [ApiKeys(store) for store in stores]

    stores, both = await run_sync(open_both)
    try:
        made = await run_sync(changed, stores[1], partial(both[0].create, TEAM))
        began = time.time()
        for keys in (*both, *both):
            for _ in range(50):
                await keys.authenticate(made.secret)
            await run_sync(keys.flush)
        [listed] = await run_sync(both[0].list)
        assert listed.uses == 200
        assert listed.last_used is not None
        assert began - 1 <= listed.last_used <= time.time()
    finally:
        for thing in (*both, *stores):
            await run_sync(thing.close)


async def test_uses_that_could_not_be_written_are_kept_for_the_next_time(
    keys: ApiKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = keys.create(TEAM)
    store = keys._store  # pyright: ignore[reportPrivateUsage]

    def fail(uses: object) -> None:
        raise StorageError("The disk is full.", url="")

    with monkeypatch.context() as broken:
        broken.setattr(store, "add_usage", fail)
        await keys.authenticate(made.secret)
        with pytest.raises(StorageError):
            keys.flush()
        await keys.authenticate(made.secret)
    assert [it.uses for it in keys.list()] == [2]


async def test_keys_go_on_working_while_the_store_is_away(memory: Memory) -> None:
    store = memory.open(OPERATOR)
    keys = ApiKeys(store)
    made = keys.create(TEAM)
    store.close()
    assert (await keys.authenticate(made.secret)).tenant == "team"
    with pytest.raises(StorageError):
        keys.list()
    with pytest.raises(StorageError):
        keys.create(TEAM)


async def test_guessing_has_the_store_asked_a_few_times_only(
    memory: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    store = memory.open(OPERATOR)
    with ApiKeys(store) as keys, caplog.at_level("DEBUG", "pegboard.auth"):
        store.close()
        for number in range(100):
            assert await reason_of(keys, f"pb_{'a' * 12}_{number:064x}") == "unknown"
    looks = caplog.text.count("api_key_not_looked_for")
    assert 0 < looks < 100


def test_keys_that_ended_long_ago_are_forgotten(
    keys: ApiKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    gone = keys.revoke(keys.create(TEAM).key.id)
    over = keys.create(KeyGrant(expires=now + 1)).key
    stays = keys.create(TEAM).key
    assert {it.id for it in keys.list()} == {gone.id, over.id, stays.id}
    monkeypatch.setattr(time, "time", lambda: now + 91 * 24 * 3600)
    new = keys.create(TEAM).key
    assert {it.id for it in keys.list()} == {stays.id, new.id}


async def test_a_key_dies_with_the_key_that_made_it(keys: ApiKeys) -> None:
    first = keys.create(KeyGrant(scopes=("admin",)))
    second = keys.create(KeyGrant(), maker=f"pb_{first.key.id}")
    third = keys.create(KeyGrant(), maker=f"pb_{second.key.id}")
    other = keys.create(KeyGrant(), maker="https://issuer.example.com#ann")
    assert (await keys.authenticate(third.secret)).subject == f"pb_{third.key.id}"
    keys.revoke(first.key.id)
    for dead in (first, second, third):
        assert await reason_of(keys, dead.secret) == "revoked"
    assert (await keys.authenticate(other.secret)).subject == f"pb_{other.key.id}"
    assert [it.revoked is None for it in keys.list()] == [False, False, False, True]
    with pytest.raises(ValueError, match="no longer valid"):
        keys.rotate(third.key.id)
    # A process that has not read the keys yet looks it up with its makers.
    keys._loaded = {}  # pyright: ignore[reportPrivateUsage] - as before the watch tells of it
    assert await reason_of(keys, third.secret) == "revoked"


def test_a_key_whose_maker_is_gone_is_refused() -> None:
    orphan = StoredKey(id="child", created=2.0, maker="pb_parent")
    assert with_ends_of_makers({"child": orphan})["child"].revoked == 2.0
    own = StoredKey(id="loop", created=3.0, maker="pb_loop")
    assert with_ends_of_makers({"loop": own})["loop"].revoked == 3.0


def test_a_caller_makes_no_key_that_may_do_more() -> None:
    maker = Principal(
        tenant="team",
        subject="pb_maker",
        scopes=frozenset({"admin"}),
        servers=("git*",),
        expires=5e9,
        calls_per_minute=10,
    )
    fitting = KeyGrant(tenant="team", servers=("git*",), calls_per_minute=5, expires=6e9)
    assert grant_of_maker(fitting, maker).expires == 5e9
    for more in (
        msgspec.structs.replace(fitting, tenant="default"),
        msgspec.structs.replace(fitting, servers=("*",)),
        msgspec.structs.replace(fitting, calls_per_minute=None),
        msgspec.structs.replace(fitting, calls_per_minute=11),
    ):
        with pytest.raises(ValueError, match="your own"):
            grant_of_maker(more, maker)
