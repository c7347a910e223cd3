"""The keys of an issuer: found, renewed, and fetched no more often than is polite."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from anyio.abc import SocketStream
from anyio.lowlevel import checkpoint

from pegboard.auth import TokenIssuer
from pegboard.auth import signing_keys as fetch
from pegboard.auth.signing_keys import (
    FRESH,
    LATE,
    MOST_BYTES,
    MOST_KEYS,
    PAUSE,
    PAUSE_AFTER_FAILURE,
    USABLE,
    SigningKeys,
    fetch_document,
)
from pegboard.errors import UnauthenticatedError
from tests.auth.token_server import Key, TokenServer, new_key, token_server
from tests.upstream.http_servers import serving_raw

ISSUER = "https://login.example.com/realm"


class Issuer:
    """An issuer and a clock in the test's hands."""

    def __init__(self) -> None:
        self.keys: list[Key] = [new_key("EC")]
        self.more: list[Any] = []
        self.now = 1_000.0
        self.fetches: Counter[str] = Counter()
        self.failing: BaseException | None = None
        self.gate: anyio.Event | None = None

    async def fetch(self, url: str) -> bytes:
        self.fetches[url] += 1
        if self.gate is not None:
            await self.gate.wait()
        if self.failing is not None:
            raise self.failing
        keys = [it.as_dict(private=False) for it in self.keys]
        return json.dumps({"keys": [*keys, *self.more]}).encode()

    def signing_keys(self) -> SigningKeys:
        known = TokenIssuer(issuer=ISSUER, jwks_url=f"{ISSUER}/jwks")
        return SigningKeys(known, fetch=self.fetch, clock=lambda: self.now)


@pytest.fixture
def issuer() -> Issuer:
    return Issuer()


async def reason_of(keys: SigningKeys, key_id: str | None, algorithm: str = "ES256") -> str:
    with pytest.raises(UnauthenticatedError) as refused:
        await keys.find(key_id, algorithm)
    return refused.value.reason


async def test_an_issuer_that_sends_a_byte_now_and_then_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetch, "SECONDS", 1.0)
    left = anyio.Event()

    async def drip(stream: SocketStream) -> None:
        await stream.receive()
        await stream.send(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
        try:
            while True:
                await stream.send(b"x")
                with anyio.move_on_after(0.1):
                    await stream.receive()
        except (anyio.BrokenResourceError, anyio.EndOfStream):
            left.set()

    async with serving_raw(drip) as origin:
        with anyio.fail_after(20):
            with pytest.raises(TimeoutError, match="did not answer within 1 s"):
                await fetch_document(f"{origin}/jwks")
            await left.wait()


async def test_keys_are_fetched_once_and_then_known(issuer: Issuer) -> None:
    keys = issuer.signing_keys()
    for _ in range(5):
        assert (await keys.find(issuer.keys[0].kid, "ES256")).algorithm_name == "ES256"
    assert issuer.fetches.total() == 1


async def test_a_new_key_is_found_and_an_old_one_forgotten(issuer: Issuer) -> None:
    keys = issuer.signing_keys()
    old = issuer.keys[0]
    await keys.find(old.kid, "ES256")
    issuer.keys = [new_key("EC")]
    issuer.now += PAUSE
    generation = keys.generation
    await keys.find(issuer.keys[0].kid, "ES256")
    assert keys.generation > generation
    assert await reason_of(keys, old.kid) == "invalid"
    assert issuer.fetches.total() == 2


async def test_a_flood_of_unknown_keys_is_one_fetch_in_a_while(issuer: Issuer) -> None:
    keys = issuer.signing_keys()
    await keys.find(issuer.keys[0].kid, "ES256")
    for number in range(1_000):
        assert await reason_of(keys, f"unknown-{number}") == "invalid"
    assert issuer.fetches.total() == 1
    issuer.now += PAUSE
    async with anyio.create_task_group() as tasks:
        for number in range(100):
            tasks.start_soon(reason_of, keys, f"unknown-{number}")
    assert issuer.fetches.total() == 2


async def test_keys_are_fetched_again_after_a_while(issuer: Issuer) -> None:
    keys = issuer.signing_keys()
    await keys.find(issuer.keys[0].kid, "ES256")
    issuer.now += FRESH + 1
    await keys.find(issuer.keys[0].kid, "ES256")
    assert issuer.fetches.total() == 2


async def test_while_the_issuer_is_away_known_keys_count_for_an_hour(
    issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    keys = issuer.signing_keys()
    await keys.find(issuer.keys[0].kid, "ES256")
    issuer.failing = OSError("no route to it")
    issuer.now += FRESH + 1
    for _ in range(10):
        await keys.find(issuer.keys[0].kid, "ES256")
    assert issuer.fetches.total() == 2
    assert "no route to it" in caplog.text
    issuer.now += USABLE
    assert await reason_of(keys, issuer.keys[0].kid) == "unavailable"
    issuer.failing, issuer.now = None, issuer.now + PAUSE
    await keys.find(issuer.keys[0].kid, "ES256")


async def test_while_the_issuer_is_away_nobody_can_say_which_keys_it_has(issuer: Issuer) -> None:
    keys = issuer.signing_keys()
    await keys.find(issuer.keys[0].kid, "ES256")
    assert await reason_of(keys, "new") == "invalid"
    issuer.now += PAUSE
    issuer.failing = TimeoutError("no answer")
    for _ in range(2):
        assert await reason_of(keys, "new") == "unavailable"
    assert issuer.fetches.total() == 2
    issuer.failing, issuer.now = None, issuer.now + PAUSE_AFTER_FAILURE
    assert await reason_of(keys, "new") == "invalid"


async def test_an_issuer_that_hangs_is_away_also_when_nobody_waits_for_it(issuer: Issuer) -> None:
    keys = issuer.signing_keys()
    await keys.find(issuer.keys[0].kid, "ES256")
    issuer.now += PAUSE
    issuer.gate = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(keys.find, "new", "ES256")
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    with anyio.fail_after(5):
        assert await reason_of(keys, "new") == "unavailable"
    assert issuer.fetches.total() == 2


async def test_who_has_a_key_does_not_wait_for_newer_ones(issuer: Issuer) -> None:
    keys = issuer.signing_keys()
    await keys.find(issuer.keys[0].kid, "ES256")
    issuer.now += FRESH + 1
    issuer.gate = anyio.Event()
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(keys.find, issuer.keys[0].kid, "ES256")
            while issuer.fetches.total() < 2:
                await checkpoint()
            await keys.find(issuer.keys[0].kid, "ES256")
            issuer.gate.set()


async def test_old_keys_are_renewed_while_nobody_waits(issuer: Issuer) -> None:
    keys = issuer.signing_keys()
    kid = issuer.keys[0].kid
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(keys.keep_fresh)
        await keys.find(kid, "ES256")
        generation = keys.generation
        issuer.now += FRESH + 1
        issuer.gate = anyio.Event()
        with anyio.fail_after(5):
            for _ in range(10):
                await keys.find(kid, "ES256")
            await anyio.wait_all_tasks_blocked()
            assert issuer.fetches.total() == 2
            await keys.find(kid, "ES256")
            issuer.gate.set()
            while keys.generation == generation:
                await checkpoint()
        assert issuer.fetches.total() == 2
        tasks.cancel_scope.cancel()


async def test_nobody_with_a_known_key_waits_for_an_issuer_that_is_away(issuer: Issuer) -> None:
    keys = issuer.signing_keys()
    kid = issuer.keys[0].kid
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(keys.keep_fresh)
        await keys.find(kid, "ES256")
        issuer.now += FRESH + 1
        issuer.failing = OSError("no route to it")
        for _ in range(40):
            with anyio.fail_after(5):
                await keys.find(kid, "ES256")
                await anyio.wait_all_tasks_blocked()
            # From now on it does not even answer.
            issuer.gate = issuer.gate or anyio.Event()
            issuer.now += 60
        assert issuer.fetches.total() == 3
        issuer.now += USABLE
        with anyio.move_on_after(0.01) as waiting:
            await keys.find(kid, "ES256")
        assert waiting.cancelled_caught
        tasks.cancel_scope.cancel()


async def test_whoever_asks_for_the_first_time_in_long_gets_no_key_that_was_withdrawn(
    issuer: Issuer,
) -> None:
    keys = issuer.signing_keys()
    kid = issuer.keys[0].kid
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(keys.keep_fresh)
        await keys.find(kid, "ES256")
        issuer.now += LATE + 1
        issuer.keys = [new_key("EC")]
        assert await reason_of(keys, kid) == "invalid"
        tasks.cancel_scope.cancel()


async def test_a_mistake_while_keys_are_renewed_is_no_end_of_it(
    issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    keys = issuer.signing_keys()
    kid = issuer.keys[0].kid
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(keys.keep_fresh)
        await keys.find(kid, "ES256")
        for failing in (RuntimeError("a mistake of somebody's"), None):
            issuer.failing = failing
            issuer.now += FRESH + 1
            await keys.find(kid, "ES256")
            await anyio.wait_all_tasks_blocked()
        assert issuer.fetches.total() == 3
        tasks.cancel_scope.cancel()
    assert "a mistake of somebody's" in caplog.text


async def test_callers_that_go_away_do_not_make_the_next_ones_fetch(issuer: Issuer) -> None:
    keys = issuer.signing_keys()
    issuer.gate = anyio.Event()
    for _ in range(20):
        with anyio.CancelScope() as leaving:
            leaving.cancel()
            await keys.find("any", "ES256")
    with anyio.move_on_after(0):
        await keys.find("any", "ES256")
    issuer.gate.set()
    assert issuer.fetches.total() <= 1


async def test_while_an_issuer_does_not_answer_it_is_asked_once_for_all_who_wait(
    issuer: Issuer,
) -> None:
    keys = issuer.signing_keys()
    issuer.gate, issuer.failing = anyio.Event(), TimeoutError("no answer")
    reasons: list[str] = []

    async def ask() -> None:
        reasons.append(await reason_of(keys, "any"))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            # It takes longer than the pause that follows.
            issuer.now += 2 * PAUSE_AFTER_FAILURE
            issuer.gate.set()
        await ask()
        assert (reasons, issuer.fetches.total()) == (["unavailable"] * 21, 1)
        issuer.now += PAUSE_AFTER_FAILURE
        await ask()
    assert issuer.fetches.total() == 2


async def test_a_fetch_that_was_given_up_late_is_not_begun_again_at_once(issuer: Issuer) -> None:
    keys = issuer.signing_keys()
    issuer.gate = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(keys.find, "any", "ES256")
        await anyio.wait_all_tasks_blocked()
        issuer.now += 2 * PAUSE_AFTER_FAILURE
        tasks.cancel_scope.cancel()
    with anyio.fail_after(5):
        assert await reason_of(keys, "any") == "unavailable"
    assert issuer.fetches.total() == 1


@pytest.mark.parametrize(
    "failing",
    [OSError("x"), TimeoutError("x"), ValueError("x"), RecursionError("x")],
    ids=lambda it: type(it).__name__,
)
async def test_an_issuer_that_never_answered_is_unavailable(
    issuer: Issuer, failing: Exception
) -> None:
    issuer.failing = failing
    assert await reason_of(issuer.signing_keys(), "any") == "unavailable"


async def test_keys_that_are_for_something_else_are_left_out(issuer: Issuer) -> None:
    rsa = new_key("RSA")
    issuer.keys = []
    public = rsa.as_dict(private=False)
    issuer.more = [
        {**public, "use": "enc"},
        {**public, "alg": "RS512"},
        {"kty": "oct", "k": "c2VjcmV0", "kid": rsa.kid},
        {"kty": "RSA", "kid": rsa.kid, "n": "!", "e": "AQAB"},
        {"kid": rsa.kid},
        None,
        7,
    ]
    keys = issuer.signing_keys()
    for algorithm in ("RS256", "HS256", "ES256", "EdDSA", "none"):
        assert await reason_of(keys, rsa.kid, algorithm) == "invalid"


async def test_a_token_that_names_no_key_is_clear_only_where_there_is_one(issuer: Issuer) -> None:
    keys = issuer.signing_keys()
    await keys.find(None, "ES256")
    issuer.keys.append(new_key("EC"))
    issuer.now += FRESH + 1
    assert await reason_of(keys, None) == "invalid"
    await keys.find(issuer.keys[1].kid, "ES256")


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"{}",
        b'{"keys": {}}',
        b"\xff",
        b"[" * 100_000,
        json.dumps({"keys": [{}] * (MOST_KEYS + 1)}).encode(),
    ],
    ids=range(7),
)
async def test_what_is_no_set_of_keys_is_not_used(text: bytes) -> None:
    async def fetch(url: str) -> bytes:
        return text

    known = TokenIssuer(issuer=ISSUER, jwks_url=f"{ISSUER}/jwks")
    assert await reason_of(SigningKeys(known, fetch=fetch), "any") == "unavailable"


@pytest.mark.parametrize(
    ("documents", "found"),
    [
        ({"/.well-known/oauth-authorization-server/realm": {}}, False),
        (
            {
                "/.well-known/oauth-authorization-server/realm": {
                    "issuer": ISSUER,
                    "jwks_uri": "https://login.example.com/k",
                }
            },
            True,
        ),
        (
            {
                "/realm/.well-known/openid-configuration": {
                    "issuer": ISSUER,
                    "jwks_uri": "https://login.example.com/k",
                }
            },
            True,
        ),
        (
            {
                "/realm/.well-known/openid-configuration": {
                    "issuer": "https://evil.example.com",
                    "jwks_uri": "https://login.example.com/k",
                }
            },
            False,
        ),
        (
            {
                "/realm/.well-known/openid-configuration": {
                    "issuer": ISSUER,
                    "jwks_uri": "file:///etc/passwd",
                }
            },
            False,
        ),
        ({}, False),
    ],
)
async def test_the_issuers_metadata_says_where_its_keys_are(
    documents: dict[str, object], found: bool
) -> None:
    key = new_key("EC")

    async def fetch(url: str) -> bytes:
        path = url.removeprefix("https://login.example.com")
        if path == "/k":
            return json.dumps({"keys": [key.as_dict(private=False)]}).encode()
        if path not in documents:
            raise OSError(f"404 {url}")
        return json.dumps(documents[path]).encode()

    keys = SigningKeys(TokenIssuer(issuer=ISSUER), fetch=fetch)
    if found:
        await keys.find(key.kid, "ES256")
    else:
        assert await reason_of(keys, key.kid) == "unavailable"


@pytest.fixture(scope="module")
def running() -> Iterator[TokenServer]:
    with token_server() as server:
        yield server


async def test_a_document_is_fetched_over_http(running: TokenServer) -> None:
    assert b"keys" in await fetch_document(f"{running.issuer}/jwks")


@pytest.mark.parametrize(
    "response",
    [None, b"x" * (MOST_BYTES + 1), b"Location: /jwks"],
    ids=["404", "huge", "elsewhere"],
)
async def test_errors_detours_and_floods_are_not_followed(
    running: TokenServer, response: bytes | None
) -> None:
    running.answers["/odd"] = response
    with pytest.raises(OSError, match=r"404|larger|302"):
        await fetch_document(f"{running.issuer}/odd")


@pytest.mark.parametrize(
    "url", ["http://login.example.com/", "file:///etc/passwd", "ftp://127.0.0.1/", "", "https://"]
)
async def test_keys_come_by_tls_or_from_this_machine(url: str) -> None:
    with pytest.raises(OSError, match="https"):
        await fetch_document(url)
