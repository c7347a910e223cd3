"""JSON-RPC messages of servers: decode them within limits, repair them, and encode ours."""

import gc
import re
from collections.abc import Mapping
from typing import Any, cast

import msgspec
from anyio.lowlevel import checkpoint
from anyio.to_thread import run_sync

from pegboard.config.servers import MAX_RESPONSE_VALUES
from pegboard.errors import UpstreamError
from pegboard.upstream.messages.failures import UNREADABLE, FailedError
from pegboard.upstream.messages.nesting_limit import MOST_LEVELS, without_depths
from pegboard.upstream.messages.response_limits import (
    FEW_NUMBERS,
    LARGE,
    check_numbers,
    check_numbers_at_once,
    check_values,
)

__all__ = [
    "HUGE_PAGE",
    "LARGEST_LISTED",
    "LONGEST_TEXT",
    "ErrorObject",
    "Message",
    "ServerRpcError",
    "encode",
    "number_near_the_ends",
    "number_of",
    "plain_json",
    "read_large_message",
    "read_message",
    "result_in",
]

LISTED = 4
"""How many times the values of another response the page of a list may have: it is decoded item
by item."""

HUGE_PAGE = 16 * 1024 * 1024
"""Bytes: the items of a larger page are decoded one by one."""

LARGEST_LISTED = 512 * 1024
"""Bytes: of a larger item of a list, only the name is decoded. No list shows such an item."""

LONGEST_TEXT = 10_000
"""Characters of a text in a notification of more than 64 KiB: of a log message or of progress."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

# A lone surrogate, which some servers write when they cut a text within a character.
_HALF_PAIR = re.compile(
    rb"(?<!\\)((?:\\\\)*)"
    rb"(?:\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2})"
)
_SLICE = 32 * 1024
_OF_ESCAPES = b"\\u0123456789abcdefABCDEF"
_END = 200
_BEGINS_LIST = re.compile(rb'"(?:tools|resources|resourceTemplates|prompts)"\s*:\s*\[')
_BEGINNING = 4_000
_NUMBER = re.compile(rb'"id"\s*:\s*([0-9]{1,15})')


class ErrorObject(msgspec.Struct):
    """The error in a response."""

    code: int
    message: str
    data: Any = None


class Message(msgspec.Struct):
    """A message of a server: a response, a request, or a notification."""

    id: int | str | None = None
    method: str | None = None
    params: dict[str, Any] | None = None
    result: dict[str, Any] | None = None
    error: ErrorObject | None = None

    @property
    def number(self) -> int | str | None:
        """The id of a response, see `number_of`."""
        return number_of(self.id)


class ServerRpcError(Exception):
    """A server responded with a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


def number_of(given: object) -> int | str | None:
    """Return an id or a token that we made; some servers return a number as a string."""
    if isinstance(given, str) and given.isascii() and given.isdigit() and len(given) < 16:
        return int(given)
    return given if isinstance(given, int | str) else None


def read_message(data: bytes) -> Message | None:
    """Return the message in some bytes; ``None`` if they are not a message.

    A response without a result has an empty one. A response that cannot be read is a `Message`
    without result and error, so that its caller fails at once.

    Raises:
        FailedError: when it has numbers that take too long to decode.
    """
    if len(data) > FEW_NUMBERS:
        check_numbers_at_once(data)
    return _decoded(data) or _repaired(data)


async def read_large_message(data: bytes, most_values: int = MAX_RESPONSE_VALUES) -> Message | None:
    """Do what `read_message` does, within the limits, and let other calls run in between.

    Raises:
        FailedError: when the message has too many values, or numbers that take too long to decode.
    """
    if len(data) <= LARGE:
        return read_message(data)
    await check_numbers(data)
    # Item by item takes longer as a whole, and is worth it where one item may be huge.
    if len(data) > HUGE_PAGE and _BEGINS_LIST.search(data, 0, _BEGINNING) is not None:
        page = await _page_in(data, most_values)
        if page is not None:
            return page
    try:
        await check_values(data, most_values)
    except FailedError:
        if (page := await _page_in(data, most_values)) is None:
            raise
        return page
    message = _decoded_at_once(data)
    if message is not None and message.id is None and message.params:
        message.params = {key: _brief(key, it) for key, it in message.params.items()}
    return message or await run_sync(_repaired, data, abandon_on_cancel=True)


def number_near_the_ends(data: bytes) -> int | None:
    """Return the id of a message that is not decoded, if it stands near one of its ends."""
    number = _NUMBER.search(data[:_END]) or _NUMBER.search(data[-_END:])
    return None if number is None else int(number[1])


async def result_in(message: Message, data: bytes) -> dict[str, Any]:
    """Return the result of a response; ``data`` is what it was read from.

    Raises:
        ServerRpcError: when the response is an error.
        FailedError: when it cannot be read, or is nested too deeply.
    """
    if message.error is not None:
        # An exception may be kept for long.
        details = message.error.data if len(data) <= LARGE else None
        raise ServerRpcError(message.error.code, message.error.message, details)
    result = message.result
    if result is None:
        raise FailedError(UNREADABLE)
    if len(data) > LARGE:
        whole = await run_sync(_within_depth, result, data, abandon_on_cancel=True)
    elif data.count(b"{") + data.count(b"[") <= MOST_LEVELS:
        return result
    else:
        whole = _within_depth(result, data)
    if whole is None:
        raise FailedError(UNREADABLE)
    return whole


def plain_json(value: object) -> Any:
    """Return a value as plain JSON; a number that JSON does not have becomes null.

    Raises:
        ValueError: when it cannot be written as JSON.
    """
    try:
        return msgspec.json.decode(_plain.encode(value))
    except (TypeError, OverflowError, msgspec.MsgspecError) as error:
        raise ValueError(str(error)) from error


def encode(message: Mapping[str, Any], *, server: str) -> bytes:
    """Return a message as JSON, to be sent to a server.

    Raises:
        UpstreamError: when it cannot be written as JSON.
    """
    try:
        return _plain.encode(message)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise UpstreamError(
            f"The request was not sent to server {server!r}: it cannot be written as JSON "
            f"({_reason(error)}).",
            server=server,
        ) from error


class _Envelope(msgspec.Struct):
    id: int | str | None = None
    method: object = None
    result: msgspec.Raw = msgspec.Raw(b"null")
    error: msgspec.Raw = msgspec.Raw(b"null")


class _Named(msgspec.Struct):
    """What an item of a list is called; the rest is passed over without being made."""

    name: object = None
    uri: object = None
    uriTemplate: object = None  # noqa: N815 - as MCP has it


class _Page(msgspec.Struct):
    id: int | str
    result: dict[str, msgspec.Raw]


def _as_plain(value: object) -> object:
    """Return a value that the encoder does not know in a form that it does."""
    if isinstance(value, Mapping):
        return dict(cast("Mapping[Any, Any]", value))
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        # pydantic's models, which applications of the SDK use.
        return dump(by_alias=True, mode="json")
    raise TypeError(f"{type(value).__name__} is not a JSON value")


_messages = msgspec.json.Decoder(Message)
_envelopes = msgspec.json.Decoder(_Envelope)
_pages = msgspec.json.Decoder(_Page)
_items = msgspec.json.Decoder(list[msgspec.Raw])
_named = msgspec.json.Decoder(_Named)
_values = msgspec.json.Decoder()
_LISTS = ("tools", "resources", "resourceTemplates", "prompts")
_plain = msgspec.json.Encoder(enc_hook=_as_plain)


def _decoded(data: bytes) -> Message | None:
    try:
        message = _messages.decode(data)
    except (ValueError, RecursionError, msgspec.MsgspecError):
        return None
    if message.method is None and message.result is None and message.error is None:
        return None
    return message


def _decoded_at_once(data: bytes) -> Message | None:
    # Collecting garbage meanwhile would take several times as long, and find none.
    is_collecting = gc.isenabled()
    gc.disable()
    try:
        return _decoded(data)
    finally:
        if is_collecting:
            gc.enable()


def _brief(key: str, value: Any) -> Any:
    """Return what is kept of a large notification, a thousand of which may wait for a client."""
    if isinstance(value, str):
        left = len(value) - LONGEST_TEXT
        return f"{value[:LONGEST_TEXT]}… ({left} more characters)" if left > 0 else value
    size = len(_plain.encode(value))
    if size <= LONGEST_TEXT:
        return value
    return f"… ({size} bytes are left out)" if key == "data" else None


async def _page_in(data: bytes, most_values: int) -> Message | None:
    """Return the page of a list, decoded item by item; ``None`` if it is another message."""
    try:
        await check_values(data, LISTED * most_values)
        page = _pages.decode(data)
        result: dict[str, Any] = {}
        for name, raw in page.result.items():
            if name in _LISTS:
                result[name] = await _list_in(bytes(raw), most_values)
            else:
                await check_values(bytes(raw), most_values)
                result[name] = _values.decode(raw)
    except (FailedError, ValueError, RecursionError, msgspec.MsgspecError):
        return None
    return Message(id=page.id, result=result) if result.keys() & set(_LISTS) else None


async def _list_in(data: bytes, most_values: int) -> list[Any]:
    items: list[Any] = []
    done = 0
    for raw in _items.decode(data):
        if len(raw) > LARGEST_LISTED:
            items.append(_without_content(raw))
        else:
            await check_values(bytes(raw), most_values)
            items.append(_values.decode(raw))
        done += len(raw)
        if done > LARGE:
            done = 0
            await checkpoint()
    return items


def _without_content(raw: msgspec.Raw) -> dict[str, Any]:
    """Return an item that is far too large, as one that is just too large to be used."""
    named = _named.decode(raw)
    texts = {key: getattr(named, key) for key in named.__struct_fields__}
    known = {key: it[:LONGEST_TEXT] for key, it in texts.items() if isinstance(it, str)}
    # Those who leave out what is too large look at the size, and name the item.
    return {**known, "description": " " * LARGEST_LISTED}


def _without_half_pairs(text: bytes) -> bytes:
    """Replace lone surrogates, in slices: other threads have to wait for each."""
    if b"\\ud" not in text and b"\\uD" not in text:
        return text
    pieces: list[bytes] = []
    start = 0
    while start < len(text):
        piece = text[start : start + _SLICE]
        # Not within an escape; only a very long text of nothing but escapes is cut anywhere.
        if start + _SLICE < len(text) and not piece.rstrip(_OF_ESCAPES):
            piece = text[start : start + 8 * _SLICE]
        if start + len(piece) < len(text):
            piece = piece[: len(piece.rstrip(_OF_ESCAPES))] or piece
        pieces.append(_HALF_PAIR.sub(rb"\1\\ufffd", piece))
        start += len(piece)
    return b"".join(pieces)


def _repaired(data: bytes) -> Message | None:
    text = _without_half_pairs(data.removeprefix(_BYTE_ORDER_MARK))
    shallow = without_depths(text)
    if shallow != data and (message := _decoded(shallow)) is not None:
        return message
    try:
        said = _envelopes.decode(text)
    except RecursionError:
        # No parser can read it; the id of the request is near one of the ends.
        number = number_near_the_ends(text)
        return None if number is None else Message(id=number)
    except (ValueError, msgspec.MsgspecError):
        return None
    if said.id is None or said.method is not None:
        return None
    if bytes(said.result) == b"null" and bytes(said.error) == b"null":
        return Message(id=said.id, result={})
    return Message(id=said.id)


def _within_depth(result: dict[str, Any], data: bytes) -> dict[str, Any] | None:
    """Return a result that is not too deep; a list of tools may lose its deepest parts."""
    if not _is_too_deep(result):
        return result
    shallow = _decoded(without_depths(data))
    if shallow is None or shallow.result is None or _is_too_deep(shallow.result):
        return None
    return shallow.result


def _is_too_deep(value: object) -> bool:
    level = [value]
    # The message around it is one level more.
    for _ in range(MOST_LEVELS - 1):
        level = [
            child
            for parent in level
            for child in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(child, dict | list)
        ]
        if not level:
            return False
    return True


def _reason(error: Exception) -> str:
    # Without the value itself, which may be secret, and cannot be shown either.
    cut_in_half = "surrogates not allowed" in str(error)
    return "a text has half of a character" if cut_in_half else "too deep, or not a JSON value"
