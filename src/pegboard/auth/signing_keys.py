"""SigningKeys: the public keys of an issuer, fetched when needed and never more often than that."""

import json
import logging
import time
import urllib.request
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPMessage, HTTPResponse, HTTPSConnection
from socket import SHUT_RDWR, socket
from ssl import create_default_context
from typing import IO, Any, cast
from urllib.error import HTTPError
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
from jwt import PyJWK, PyJWTError

from pegboard.auth.settings import TokenIssuer, is_safe_address
from pegboard.errors import UnauthenticatedError

__all__ = ["Fetch", "SigningKeys", "fetch_document"]

Fetch = Callable[[str], Awaitable[bytes]]
"""Returns what is at an address; raises `OSError` when that cannot be had."""

SECONDS = 5.0
MOST_BYTES = 512 * 1024


async def fetch_document(url: str) -> bytes:
    """Return what is at an address, within five seconds and half a megabyte; no detours.

    Raises:
        OSError: when it cannot be had.
    """
    opened: list[socket] = []
    try:
        with anyio.fail_after(SECONDS):
            return await anyio.to_thread.run_sync(_fetch, url, opened, abandon_on_cancel=True)
    except TimeoutError:
        raise TimeoutError(f"{url!r} did not answer within {SECONDS:g} s") from None
    finally:
        # Whoever sends a byte now and then would keep the thread reading for ever.
        for it in opened:
            with suppress(OSError):
                it.shutdown(SHUT_RDWR)


def _fetch(url: str, opened: list[socket]) -> bytes:
    if not is_safe_address(url):
        raise OSError(f"{url!r} is not an `https://` address.")
    request = urllib.request.Request(url, headers={"Accept": "application/json"})  # noqa: S310 - checked above
    try:
        opener = urllib.request.build_opener(_NoDetour, _Plain(opened), _Secure(opened))
        with opener.open(request, timeout=SECONDS) as answer:
            body: bytes = answer.read(MOST_BYTES + 1)
    except HTTPError as error:
        # It holds the connection.
        error.close()
        raise OSError(f"{url!r} answers {error.code}.") from None
    if len(body) > MOST_BYTES:
        raise OSError(f"What is at {url!r} is larger than {MOST_BYTES} bytes.")
    return body


class _Plain(urllib.request.HTTPHandler):
    def __init__(self, opened: list[socket]) -> None:
        super().__init__()
        self._opened = opened

    def http_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(partial(_watched, HTTPConnection, self._opened), req)


class _Secure(urllib.request.HTTPSHandler):
    def __init__(self, opened: list[socket]) -> None:
        super().__init__()
        self._opened = opened

    def https_open(self, req: urllib.request.Request) -> HTTPResponse:
        make = partial(_watched, HTTPSConnection, self._opened)
        return self.do_open(make, req, context=create_default_context())


def _watched(
    kind: Callable[..., HTTPConnection], opened: list[socket], host: str, /, **options: Any
) -> HTTPConnection:
    """Return a connection that tells which socket it opens."""
    connection = kind(host, **options)
    connect = connection.connect

    def connect_and_tell() -> None:
        connect()
        opened.append(connection.sock)

    connection.connect = connect_and_tell
    return connection


class _NoDetour(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> None:
        """Follow nobody anywhere: the address was checked, the next one was not."""


logger: logging.Logger = logging.getLogger("pegboard.auth")

FRESH = 600.0
"""Seconds after which keys are fetched again, while those that are known still count."""
LATE = 1200.0
"""Seconds after which newer ones are waited for, unless the issuer was away when last asked."""
USABLE = 3600.0
"""Seconds for which they are used when they cannot be fetched again."""
PAUSE = 30.0
"""Seconds between two fetches, however many unknown keys tokens name."""
PAUSE_AFTER_FAILURE = 5.0
MOST_KEYS = 100
_FAMILIES = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}


class SigningKeys:
    """Finds the key with which a token of one issuer was signed."""

    def __init__(
        self,
        issuer: TokenIssuer,
        *,
        fetch: Fetch = fetch_document,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.generation: int = 0
        """Another number whenever the keys were fetched again."""
        self._issuer = issuer
        self._fetch = fetch
        self._clock = clock
        self._keys: tuple[Mapping[str, Any], ...] = ()
        self._built: dict[tuple[int, str], PyJWK] = {}
        self._fetched_at = -USABLE
        self._next_fetch = -USABLE
        self._fetching: anyio.Lock | None = None
        self._wanted: anyio.Event | None = None
        self._is_away = False

    async def keep_fresh(self) -> None:
        """Fetch keys again as soon as somebody finds old ones, who need not wait; until cancelled.

        Whoever finds old ones while this does not run waits for newer ones.
        """
        try:
            while True:
                self._wanted = anyio.Event()
                await self._wanted.wait()
                try:
                    await self._renew()
                except Exception:
                    # What is known still counts, and nobody else would ever fetch again.
                    logger.exception("jwks_not_fetched issuer=%s", self._issuer.issuer)
        finally:
            self._wanted = None

    async def find(self, key_id: str | None, algorithm: str) -> PyJWK:
        """Return the key that a token names, for an algorithm.

        Raises:
            AuthenticationFailedError: when the issuer has no such key, or cannot be asked.
        """
        found = self._pick(key_id, algorithm)
        if found is None or (self._age() > FRESH and not self._is_looked_after()):
            await self._renew()
            found = self._pick(key_id, algorithm)
        if found is not None:
            return found
        # Of one that is away nobody can say which keys it has by now.
        if self._is_away or not self._usable():
            raise UnauthenticatedError(
                "The keys of the token's issuer cannot be fetched; try again later.",
                reason="unavailable",
            )
        raise UnauthenticatedError(
            "The token is signed with a key that its issuer does not have.", reason="invalid"
        )

    def _is_looked_after(self) -> bool:
        """Ask for newer keys, and tell whether known ones are good enough until they come."""
        if self._wanted is not None:
            self._wanted.set()
            if self._is_away or self._age() <= LATE:
                return True
        return self._fetching is not None and self._fetching.locked()

    def _age(self) -> float:
        return self._clock() - self._fetched_at

    def _usable(self) -> bool:
        return self._age() < USABLE

    def _pick(self, key_id: str | None, algorithm: str) -> PyJWK | None:
        if not self._usable():
            return None
        fitting = [
            number
            for number, key in enumerate(self._keys)
            if _fits(key, algorithm) and key_id in (None, key.get("kid"))
        ]
        # A token that names no key is clear only where there is one.
        return self._build(fitting[0], algorithm) if len(fitting) == 1 else None

    def _build(self, number: int, algorithm: str) -> PyJWK | None:
        built = self._built.get((number, algorithm))
        if built is None:
            try:
                built = PyJWK(dict(self._keys[number]), algorithm)
            except (PyJWTError, ValueError, TypeError):
                return None
            self._built[number, algorithm] = built
        return built

    async def _renew(self) -> None:
        # One at a time: whoever waits finds what the one before them has fetched.
        lock = self._fetching = self._fetching or anyio.Lock()
        async with lock:
            await self._fetch_if_due()

    async def _fetch_if_due(self) -> None:
        if self._clock() < self._next_fetch:
            return
        self._is_away = True  # until it has answered
        try:
            keys = await self._fetch_keys()
        except (OSError, HTTPException, ValueError, RecursionError) as error:
            logger.warning("jwks_not_fetched issuer=%s: %s", self._issuer.issuer, error)
            return
        finally:
            # From its end, which may be long after its beginning: whoever waited meanwhile must not
            # begin again at once, nor when the caller it was for has gone away.
            self._next_fetch = self._clock() + PAUSE_AFTER_FAILURE
        self._is_away = False
        self._keys, self._built = keys, {}
        self.generation += 1
        self._fetched_at = self._clock()
        self._next_fetch = self._fetched_at + PAUSE

    async def _fetch_keys(self) -> tuple[Mapping[str, Any], ...]:
        url = self._issuer.jwks_url or await self._discover()
        keys = _object(await self._fetch(url), url).get("keys")
        if not isinstance(keys, list) or len(cast("list[Any]", keys)) > MOST_KEYS:
            raise ValueError(f"{url!r} has no list of at most {MOST_KEYS} `keys`.")
        return tuple(
            cast("Mapping[str, Any]", key)
            for key in cast("list[Any]", keys)
            if isinstance(key, dict)
        )

    async def _discover(self) -> str:
        failure: Exception | None = None
        for url in _metadata_urls(self._issuer.issuer):
            try:
                metadata = _object(await self._fetch(url), url)
            except (OSError, HTTPException, ValueError, RecursionError) as error:
                failure = error
                continue
            if metadata.get("issuer") != self._issuer.issuer:
                raise ValueError(f"{url!r} speaks of another issuer.")
            found = metadata.get("jwks_uri")
            if not isinstance(found, str) or not is_safe_address(found):
                raise ValueError(f"{url!r} does not say where its keys are (`jwks_uri`).")
            return found
        raise OSError(f"The issuer's metadata cannot be had: {failure}.")


def _fits(key: Mapping[str, Any], algorithm: str) -> bool:
    return (
        key.get("kty") == _FAMILIES.get(algorithm[:2])
        and key.get("alg") in (None, algorithm)
        and key.get("use") in (None, "sig")
    )


def _metadata_urls(issuer: str) -> Iterator[str]:
    parts = urlsplit(issuer)
    path = parts.path.rstrip("/")
    yield f"{parts.scheme}://{parts.netloc}/.well-known/oauth-authorization-server{path}"
    yield f"{parts.scheme}://{parts.netloc}{path}/.well-known/openid-configuration"


def _object(text: bytes, url: str) -> Mapping[str, Any]:
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError(f"{url!r} holds no JSON object.")  # noqa: TRY004 - all that is not as it should be is one kind
    return cast("dict[str, Any]", found)
