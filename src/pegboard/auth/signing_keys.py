"""The public signing keys (JWKS) of a token issuer: fetched when needed, and cached."""

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

from pegboard.auth.network_exposure import is_safe_address
from pegboard.auth.settings import TokenIssuer
from pegboard.errors import UnauthenticatedError

__all__ = ["Fetch", "SigningKeys", "fetch_document"]

logger: logging.Logger = logging.getLogger("pegboard.auth")

Fetch = Callable[[str], Awaitable[bytes]]
"""Returns the document at an address; raises `OSError` when it cannot be fetched."""

SECONDS = 5.0
MOST_BYTES = 512 * 1024
FRESH = 600.0
"""Seconds after which keys are fetched again, while the cached ones stay in use."""
LATE = 1200.0
"""Seconds after which a request waits for new keys, unless the last fetch failed."""
USABLE = 3600.0
"""Seconds for which cached keys are used when they cannot be fetched again."""
PAUSE = 30.0
"""Seconds between two fetches, however many unknown keys the tokens name."""
PAUSE_AFTER_FAILURE = 5.0
MOST_KEYS = 100
_FAMILIES = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}


async def fetch_document(url: str) -> bytes:
    """Return the document at an address: within 5 seconds, at most 512 KiB, without redirects.

    Raises:
        OSError: when it cannot be fetched.
    """
    opened: list[socket] = []
    try:
        with anyio.fail_after(SECONDS):
            return await anyio.to_thread.run_sync(_fetch, url, opened, abandon_on_cancel=True)
    except TimeoutError:
        raise TimeoutError(f"{url!r} did not answer within {SECONDS:g} s") from None
    finally:
        # A server that sends a byte now and then would keep the thread reading for ever.
        for it in opened:
            with suppress(OSError):
                it.shutdown(SHUT_RDWR)


class SigningKeys:
    """Finds the public key for a token of one issuer."""

    def __init__(
        self,
        issuer: TokenIssuer,
        *,
        fetch: Fetch = fetch_document,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.generation: int = 0
        """Increases whenever the keys are fetched again."""
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
        """Fetch the keys again as soon as a request finds them old; run this until cancelled.

        While this runs, such a request does not wait. Otherwise it waits for the new keys.
        """
        try:
            while True:
                self._wanted = anyio.Event()
                await self._wanted.wait()
                try:
                    await self._renew()
                except Exception:
                    # The cached keys stay in use, and no other task would ever fetch again.
                    logger.exception("jwks_not_fetched issuer=%s", self._issuer.issuer)
        finally:
            self._wanted = None

    async def find(self, key_id: str | None, algorithm: str) -> PyJWK:
        """Return the key that a token names, for an algorithm.

        Raises:
            UnauthenticatedError: when the issuer has no such key, or is unavailable.
        """
        found = self._pick(key_id, algorithm)
        if found is None or (self._age() > FRESH and not self._refreshes_in_background()):
            await self._renew()
            found = self._pick(key_id, algorithm)
        if found is not None:
            return found
        # While the issuer is unavailable, it may have keys that this process does not know.
        if self._is_away or not self._usable():
            raise UnauthenticatedError(
                "The signing keys of the token's issuer cannot be fetched. Try again later.",
                reason="unavailable",
            )
        raise UnauthenticatedError(
            "The token is signed with a key that its issuer does not have.", reason="invalid"
        )

    def _refreshes_in_background(self) -> bool:
        """Ask for new keys, and tell whether the cached ones will do until they arrive."""
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
        # A token that names no key is unambiguous only if one key fits.
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
        # One at a time: a task that waited finds the keys that the task before it fetched.
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
            # Counted from the end of the fetch, which may be long after its start: a task that
            # waited meanwhile must not fetch again at once, nor after a cancelled fetch.
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
            raise ValueError(f"{url!r} does not hold a list of at most {MOST_KEYS} `keys`.")
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
                raise ValueError(f"{url!r} names another issuer.")
            found = metadata.get("jwks_uri")
            if not isinstance(found, str) or not is_safe_address(found):
                raise ValueError(f"{url!r} does not say where its keys are (`jwks_uri`).")
            return found
        raise OSError(f"The issuer's metadata cannot be fetched: {failure}.")


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


def _fetch(url: str, opened: list[socket]) -> bytes:
    if not is_safe_address(url):
        raise OSError(f"{url!r} is not an `https://` address.")
    request = urllib.request.Request(url, headers={"Accept": "application/json"})  # noqa: S310 - checked above
    try:
        opener = urllib.request.build_opener(_NoRedirect, _Plain(opened), _Secure(opened))
        with opener.open(request, timeout=SECONDS) as answer:
            body: bytes = answer.read(MOST_BYTES + 1)
    except HTTPError as error:
        # It holds the connection.
        error.close()
        raise OSError(f"{url!r} answers with status {error.code}.") from None
    if len(body) > MOST_BYTES:
        raise OSError(f"The document at {url!r} is larger than {MOST_BYTES} bytes.")
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
    """Return a connection that adds the socket it opens to ``opened``."""
    connection = kind(host, **options)
    connect = connection.connect

    def connect_and_record() -> None:
        connect()
        opened.append(connection.sock)

    connection.connect = connect_and_record
    return connection


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> None:
        """Follow no redirect: the first address was checked, the next one was not."""
