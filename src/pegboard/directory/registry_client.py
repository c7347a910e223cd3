"""HTTP client of an MCP registry: bounded in time and size, and never led to another host."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import SplitResult, urlencode, urljoin, urlsplit
from urllib.request import getproxies

import aiohttp
import anyio
import anyio.to_thread
import msgspec

from pegboard.errors import (
    ConfigError,
    DirectoryEntryNotFoundError,
    DirectoryError,
    DirectoryResponseError,
    DirectoryUnavailableError,
)
from pegboard.model.json_limits import MOST_VALUES, has_more_values, has_slow_numbers, is_shallow
from pegboard.upstream.http.connection_errors import explain_connection_error
from pegboard.upstream.http.proxies import is_loopback, proxy_for
from pegboard.upstream.http.tls import tls_context

__all__ = ["LARGEST_RESPONSE", "RegistryClient", "checked_url", "decoded"]

LARGEST_RESPONSE = 4_000_000
_SECONDS = 20.0
_SECONDS_TO_CONNECT = 10.0
_MOST_REDIRECTS = 3
_REDIRECTS = (301, 302, 303, 307, 308)
_PIECE = 64 * 1024
_LONGEST_HEADER = 16 * 1024


def checked_url(url: str, *, allow_http: bool = False) -> str:
    """Return the URL of a registry without a slash at its end.

    Raises:
        ConfigError: when it is no such URL, or would send requests in the clear.
    """
    parts = _parts(url)
    # It is not quoted: it may contain a password.
    if parts is None or parts.username is not None or parts.query or parts.fragment:
        raise ConfigError(
            "The URL of an MCP registry begins with https:// and has no user name, `?` or `#`."
        )
    if parts.scheme == "http" and not allow_http and not is_loopback(parts.hostname or ""):
        raise ConfigError(
            f"The registry {url} would be asked in the clear, so that others could change its "
            'answers. Use https://, or write `"registry": {"allow_http": true}` into the '
            "configuration."
        )
    return url.rstrip("/").removesuffix("/v0.1")


def decoded(content: bytes, registry: str) -> Any:
    """Return the JSON of a response.

    Raises:
        DirectoryResponseError: when it is no JSON, or exceeds a limit.
    """
    problem = "is not JSON"
    try:
        if has_more_values(content, MOST_VALUES) or has_slow_numbers(content):
            problem = "has too many values"
        else:
            value = msgspec.json.decode(content)
            if is_shallow(value):
                return value
            problem = "is nested too deeply"
    except (ValueError, RecursionError):
        pass
    raise DirectoryResponseError(
        f"The answer of {registry} {problem}. Is it the address of an MCP registry?",
        registry=registry,
    )


class RegistryClient:
    """Asks one registry; use it as `open` gives it."""

    def __init__(self, url: str, session: aiohttp.ClientSession, options: dict[str, Any]) -> None:
        self.url: str = url
        self._session = session
        self._options = options

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str, *, allow_http: bool = False) -> AsyncGenerator["RegistryClient"]:
        """Open a client; nothing is sent before it is asked.

        Raises:
            ConfigError: when the URL, or the certificates of the environment, cannot be used.
        """
        url = checked_url(url, allow_http=allow_http)
        options: dict[str, Any] = {"allow_redirects": False, "proxy": None}
        options["proxy"] = proxy_for(url, None, getproxies())
        if url.startswith("https:"):
            options["ssl"] = await anyio.to_thread.run_sync(tls_context, None)
        async with aiohttp.ClientSession(
            auto_decompress=False,
            # What is compressed may be a thousand times as large as it looks.
            headers={"Accept": "application/json", "Accept-Encoding": "identity"},
            timeout=aiohttp.ClientTimeout(total=_SECONDS, connect=_SECONDS_TO_CONNECT),
            cookie_jar=aiohttp.DummyCookieJar(),
            max_line_size=_LONGEST_HEADER,
            max_field_size=_LONGEST_HEADER,
            trust_env=False,
        ) as session:
            yield cls(url, session, options)

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        """Return the JSON that the registry answers with.

        Args:
            path: below the URL, already quoted.
            query: the parameters.

        Raises:
            DirectoryUnavailableError: when the registry cannot be reached.
            DirectoryEntryNotFoundError: when it says that there is no such thing.
            DirectoryResponseError: when the answer cannot be used.
        """
        url = f"{self.url}{path}{'?' if query else ''}{urlencode(query or {})}"
        try:
            with anyio.fail_after(_SECONDS):
                for _ in range(_MOST_REDIRECTS + 1):
                    status, target, content = await self._get_once(url)
                    if status not in _REDIRECTS:
                        return self._checked(status, content)
                    url = self._followed(url, target)
        except DirectoryError:
            raise
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
            raise self._unavailable(error) from error
        raise self._wrong("redirects too often")

    async def _get_once(self, url: str) -> tuple[int, str, bytes]:
        async with self._session.get(url, **self._options) as response:
            status, target = response.status, response.headers.get("Location", "")
            if status in _REDIRECTS:
                return status, target, b""
            if response.headers.get("Content-Encoding", "identity") != "identity":
                raise self._wrong("is compressed, although that was not asked for")
            content = bytearray()
            async for piece in response.content.iter_chunked(_PIECE):
                content += piece
                if len(content) > LARGEST_RESPONSE:
                    raise self._wrong(f"is larger than {LARGEST_RESPONSE // 1_000_000} MB")
            return status, target, bytes(content)

    def _checked(self, status: int, content: bytes) -> bytes:
        if status == 200:
            return content
        if status == 404:
            raise DirectoryEntryNotFoundError("what was asked for", registry=self.url)
        if status == 429 or status >= 500:
            problem = f"The registry {self.url} cannot answer now: status {status}."
            raise DirectoryUnavailableError(problem, registry=self.url)
        raise self._wrong(f"has the status {status}")

    def _followed(self, url: str, target: str) -> str:
        """Return where a redirect leads, if that is the same host."""
        before, after = urlsplit(url), _parts(urljoin(url, target))
        if after is None or _origin(after) != _origin(before) or after.username is not None:
            where = "an unreadable address" if after is None else repr(after.hostname)
            raise self._wrong(
                f"redirects to {where}, and Pegboard follows no redirect to another host"
            )
        return after.geturl()

    def _wrong(self, problem: str) -> DirectoryResponseError:
        return DirectoryResponseError(
            f"The answer of the registry {self.url} {problem}.", registry=self.url
        )

    def _unavailable(self, error: Exception) -> DirectoryUnavailableError:
        host = urlsplit(self.url).hostname or ""
        if isinstance(error, TimeoutError):
            cause = f"it did not answer within {_SECONDS:.0f} seconds"
        else:
            cause = explain_connection_error(error, host)[:300]
        return DirectoryUnavailableError(
            f"The registry {self.url} cannot be reached: {cause}.", registry=self.url
        )


def _parts(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        return None
    is_plain = url.isprintable() and " " not in url
    return parts if is_usable and is_plain else None


def _origin(parts: SplitResult) -> tuple[str, str | None, int | None]:
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return parts.scheme, parts.hostname, port
