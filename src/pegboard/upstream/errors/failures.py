"""Failures of HTTP exchanges: what each means, and whether the request may have run."""

import html
import re
import secrets
from collections.abc import Callable, Iterator
from email.utils import parsedate_to_datetime
from time import time
from typing import Any, Literal, cast, get_args

import httpx2
import msgspec
from mcp import MCPError
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, METHOD_NOT_FOUND, ErrorData

from pegboard.errors import ServerAuthenticationError

__all__ = [
    "UNREADABLE",
    "Failure",
    "FailureKind",
    "failure_behind",
    "failure_of",
    "failure_of_answer",
    "failure_of_exception",
]

FailureKind = Literal[
    "not_sent", "lost", "session_lost", "unauthorized", "busy", "http_error", "unreadable"
]
"""What is known about a request that failed.

- ``not_sent``: it certainly never reached the server.
- ``lost``: the connection broke or stayed silent, so it may have run.
- ``session_lost``: the server has forgotten our session and did not look at the request.
- ``unauthorized``: the server wants other credentials.
- ``busy``: the server asks to try again later.
- ``http_error``: any other answer that is none.
- ``unreadable``: an answer that is no message of the protocol.
"""

_NOT_SENT = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.ProxyError,
    httpx2.UnsupportedProtocol,
)
_SHOWN = 200
# Only the beginning of a page is searched: patterns on hostile text take quadratic time.
_SEARCHED = 4000
_TITLE = re.compile(r"<title[^<>]*>([^<]+)", re.IGNORECASE)
_MARKUP = re.compile(r"<(script|style)\b.*?</\1\s*>|<!--.*?-->|<[^<>]*>", re.DOTALL | re.IGNORECASE)
_LONGEST_WAIT = 86_400.0
# Only this process knows it, so that no server can claim that a request was not sent.
_PROOF = secrets.token_hex(16)


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why one request has no result."""

    kind: FailureKind
    message: str
    status: int | None = None
    retry_after: float | None = None
    """Seconds after which the server wants to be asked again."""
    challenge: str | None = None
    """The server's ``WWW-Authenticate`` header."""

    @property
    def error(self) -> ErrorData:
        """The same as a JSON-RPC error; ``failure_of`` reads it back."""
        details: dict[str, Any] = {"pegboard": self.kind, "proof": _PROOF}
        for name in ("status", "retry_after", "challenge"):
            value = getattr(self, name)
            if value is not None:
                details[name] = value
        return ErrorData(code=self._code, message=self.message, data=details)

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        """The same as an HTTP response, the form in which the SDK passes it on."""
        body = {"jsonrpc": "2.0", "id": None, "error": self.error.model_dump(mode="json")}
        return httpx2.Response(
            503,
            content=msgspec.json.encode(body),
            headers={"content-type": "application/json"},
            request=request,
        )

    def redacted(self, redact: Callable[[str], str]) -> "Failure":
        """The same without the secrets that ``redact`` knows."""
        challenge = None if self.challenge is None else redact(self.challenge)
        return msgspec.structs.replace(self, message=redact(self.message), challenge=challenge)

    @property
    def _code(self) -> int:
        if self.kind in ("not_sent", "lost", "session_lost"):
            return CONNECTION_CLOSED
        # The SDK takes HTTP 404 for a missing method, and so do servers without sessions.
        return METHOD_NOT_FOUND if self.status == 404 else INTERNAL_ERROR


UNREADABLE = Failure(
    kind="unreadable",
    message="The server sent a response that cannot be read: it is broken, or nested too deeply.",
)


def failure_of(error: ErrorData) -> Failure | None:
    """Return the failure behind a JSON-RPC error; ``None`` if the server itself sent it."""
    data: object = error.data
    if isinstance(data, dict):
        details = cast("dict[str, Any]", data)
        if details.get("proof") == _PROOF and details.get("pegboard") in get_args(FailureKind):
            return Failure(
                kind=details["pegboard"],
                message=error.message,
                status=details.get("status"),
                retry_after=details.get("retry_after"),
                challenge=details.get("challenge"),
            )
    return None


def failure_of_exception(error: Exception, request: httpx2.Request) -> Failure:
    """Return the failure that an exception of the HTTP client means for its request."""
    if isinstance(error, ServerAuthenticationError):
        return Failure(kind="unauthorized", message=str(error))
    reason = str(error).rstrip(".") or type(error).__name__
    if _broke_the_login(error, request):
        # The request itself was not sent yet, or was refused because it had no token.
        message = f"Its authorization server does not answer: {reason}."
        return Failure(kind="not_sent", message=message)
    if isinstance(error, _NOT_SENT):
        return Failure(kind="not_sent", message=f"{reason}.")
    if isinstance(error, httpx2.TimeoutException):
        return Failure(kind="lost", message=f"The server stayed silent for too long ({reason}).")
    return Failure(kind="lost", message=f"The connection broke before the answer: {reason}.")


def failure_of_answer(
    answer: httpx2.Response,
    body: bytes,
    *,
    had_session: bool,
    redact: Callable[[str], str] = str,
) -> Failure | None:
    """Return the failure of a response with an error status; ``None`` if its body has the error."""
    status = answer.status_code
    told = _rpc_error(body)
    if had_session and _forgot_session(status, told):
        message = "The server has forgotten this session."
        return Failure(kind="session_lost", message=message, status=status)
    retry_after = _seconds(answer.headers.get("retry-after"))
    is_busy = status == 429 or (status == 503 and retry_after is not None)
    if told is not None and status != 401 and not is_busy:
        return None
    if status in (401, 403):
        return Failure(
            kind="unauthorized",
            message=f"The server refused the credentials (HTTP {status}).",
            status=status,
            challenge=_shown(redact(answer.headers.get("www-authenticate", ""))) or None,
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


def _broke_the_login(error: Exception, request: httpx2.Request) -> bool:
    try:
        return isinstance(error, httpx2.RequestError) and error.request is not request
    except RuntimeError:  # it knows no request
        return False


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
    return status == 400 and told is not None and "session" in told.message.lower()


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
        if isinstance(cause, MCPError):
            failure = failure_of(cause.error)
            if failure is not None:
                return failure
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
