"""Failures of HTTP exchanges: what each means, and whether the request may have run."""

import html
import re
from collections.abc import Callable, Iterator, Mapping
from email.utils import parsedate_to_datetime
from time import time
from typing import Literal, cast

import msgspec

__all__ = [
    "UNREADABLE",
    "FailedError",
    "Failure",
    "FailureKind",
    "ResumableError",
    "failure_behind",
    "failure_of_response",
]

FailureKind = Literal[
    "not_sent",
    "lost",
    "session_lost",
    "unauthorized",
    "busy",
    "http_error",
    "unreadable",
    "not_mcp",
]
"""What is known about a request that failed.

- ``not_sent``: it certainly never reached the server.
- ``lost``: the connection broke or stayed silent, so it may have run.
- ``session_lost``: the server has forgotten our session and did not look at the request.
- ``unauthorized``: the server wants other credentials.
- ``busy``: the server asks to try again later.
- ``http_error``: any other answer that is none.
- ``unreadable``: an answer that is no message of the protocol.
- ``not_mcp``: an answer that a server of the protocol does not give.
"""

_SHOWN = 200
# Only the beginning of a page is searched: patterns on hostile text take quadratic time.
_SEARCHED = 4000
_TITLE = re.compile(r"<title[^<>]*>([^<]+)", re.IGNORECASE)
_MARKUP = re.compile(r"<(script|style)\b.*?</\1\s*>|<!--.*?-->|<[^<>]*>", re.DOTALL | re.IGNORECASE)
_LONGEST_WAIT = 86_400.0
_NO_SESSION = frozenset({-32600, -32000, -32001})


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why one request has no result."""

    kind: FailureKind
    message: str
    status: int | None = None
    retry_after: float | None = None
    """Seconds after which the server wants to be asked again."""
    challenge: str | None = None
    """The server's ``WWW-Authenticate`` header."""
    remedy: str = ""
    """What to check, if that is not the address of the server."""

    def redacted(self, redact: Callable[[str], str]) -> "Failure":
        """The same without the secrets that ``redact`` knows."""
        challenge = None if self.challenge is None else redact(self.challenge)
        return msgspec.structs.replace(self, message=redact(self.message), challenge=challenge)


class FailedError(Exception):
    """Raised by a transport for a request that has no response."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class ResumableError(FailedError):
    """Raised when the stream of a response ended too soon, and the server may resume it."""

    def __init__(self, number: int | str, last_event: str, pause: float) -> None:
        super().__init__(Failure(kind="lost", message="SSE stream ended without a response"))
        self.number = number
        self.last_event = last_event
        self.pause = pause


UNREADABLE = Failure(
    kind="unreadable",
    message="The server sent a response that cannot be read: it is broken, or nested too deeply.",
)


def failure_of_response(
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    *,
    had_session: bool,
    redact: Callable[[str], str] = str,
) -> Failure | None:
    """Return the failure of a response with an error status; ``None`` if its body has the error."""
    told = _rpc_error(body)
    if had_session and _forgot_session(status, told):
        message = "The server has forgotten this session."
        return Failure(kind="session_lost", message=message, status=status)
    retry_after = _seconds(headers.get("retry-after"))
    is_busy = status == 429 or (status == 503 and retry_after is not None)
    if told is not None and status != 401 and not is_busy:
        return None
    if status in (401, 403):
        return Failure(
            kind="unauthorized",
            message=f"The server refused the credentials (HTTP {status}).",
            status=status,
            challenge=_shown(redact(headers.get("www-authenticate", ""))) or None,
        )
    if is_busy:
        return Failure(
            kind="busy",
            message=f"The server is busy (HTTP {status}).",
            status=status,
            retry_after=retry_after,
        )
    text = _words_of(body, redact).removeprefix(f"{status} ").rstrip(".")
    return Failure(
        kind="http_error",
        message=f"The server answered with HTTP {status}" + (f": {text}." if text else "."),
        status=status,
    )


class _RpcError(msgspec.Struct):
    message: str
    code: int


class _RpcErrorAnswer(msgspec.Struct):
    jsonrpc: Literal["2.0"]
    error: _RpcError


def _rpc_error(body: bytes) -> _RpcError | None:
    try:
        return msgspec.json.decode(body, type=_RpcErrorAnswer).error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _forgot_session(status: int, told: _RpcError | None) -> bool:
    if status == 404:
        return True
    # What servers made from the TypeScript SDK's template say after a restart.
    return (
        status == 400
        and told is not None
        and told.code in _NO_SESSION
        and "session" in told.message.lower()
    )


def _words_of(body: bytes, redact: Callable[[str], str]) -> str:
    # Before it is cut, so that no secret is cut in two, and after entities have been resolved.
    text = redact(body.decode("utf-8", "replace"))[:_SEARCHED]
    if text.lstrip().startswith("<"):
        title = _TITLE.search(text)
        text = html.unescape(title[1] if title else _MARKUP.sub(" ", text))
    return _shown(redact(text))


def _shown(text: str) -> str:
    printable = "".join(letter if letter.isprintable() else " " for letter in text)
    return " ".join(printable.split())[:_SHOWN]


def _seconds(retry_after: str | None) -> float | None:
    if retry_after is None:
        return None
    try:
        seconds = float(retry_after)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(retry_after).timestamp() - time()
        except (ValueError, OverflowError):
            return None
    # Not max(): a server may send "nan".
    return min(seconds, _LONGEST_WAIT) if seconds > 0 else 0.0


_DEEPEST = 20


def failure_behind(error: BaseException) -> Failure | None:
    """Return the failure that became this error; ``None`` if there is none."""
    for cause in _causes(error):
        if isinstance(cause, FailedError):
            return cause.failure
    return None


def _causes(error: BaseException, depth: int = 0) -> Iterator[BaseException]:
    if depth == _DEEPEST:
        return
    yield error
    if isinstance(error, BaseExceptionGroup):
        for inner in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from _causes(inner, depth + 1)
    before = error.__cause__ or error.__context__
    if before is not None:
        yield from _causes(before, depth + 1)
