"""The stdio transport to a client, for both eras: its first request decides which one."""

import asyncio  # noqa: TID251 - the event loop itself calls the reader, which saves a task switch
import logging
import os
import select
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Never

import anyio
import anyio.abc
import anyio.lowlevel
import anyio.to_thread
from mcp.shared.inbound import InboundLadderRejection, classify_inbound_request
from mcp_types import INVALID_REQUEST, PROTOCOL_VERSION_META_KEY, UNSUPPORTED_PROTOCOL_VERSION
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from pegboard.gateway.request import ClientRequest, Face, RpcError
from pegboard.model.principal import LOCAL
from pegboard.registry.threads import context_of_asyncio
from pegboard.server.client_peer import ClientPeer, PeerChannel
from pegboard.server.jsonrpc import check_message, error_message
from pegboard.server.legacy_session import LegacySession
from pegboard.server.message_limits import BodyTooLargeError, read_json, request_id_in
from pegboard.server.modern_era import client_of, refusal_of
from pegboard.server.request_pipeline import RequestPipeline

__all__ = ["LONGEST_LINE", "StdioWire", "claim_stdio", "serve_stdio"]

logger: logging.Logger = logging.getLogger("pegboard.server")

LONGEST_LINE = 64 * 1024 * 1024
"""The most bytes of one line; a longer line is replaced by a mark that is not a message."""

GRACE = 2.0
"""Seconds that running requests may take once the client has closed its end."""
LAST_WORDS = 1.0
"""Seconds that a client which has closed its end may take to read its last responses."""

_SESSION = "stdio"
_PROBE = "server/discover"
"""Clients of both eras may begin with this method, so it decides nothing."""
_TOO_LONG = b"?"

Work = Callable[[], Coroutine[Any, Any, None]]
Take = Callable[[bytes], Work | None]
"""Takes one line, and returns what is to be done before the next one, if anything."""
_CHUNK = 256 * 1024


class StdioWire:
    """Reads lines from one file descriptor, and writes lines to another."""

    def __init__(self, source: int, target: int) -> None:
        self._source = source
        self._target = target
        self._outlet = select.poll()
        self._outlet.register(target, select.POLLOUT)
        self._inlet = select.poll()
        # On a socket only this tells that the client has stopped sending; not every system has it.
        self._inlet.register(source, getattr(select, "POLLRDHUP", 0))
        self._writing = anyio.Lock(fast_acquire=True)
        self._unsent = b""
        """The rest of a line whose writer was cancelled; the next writer completes the line."""

    @property
    def is_left(self) -> bool:
        """Whether the client has closed its end, and reads nothing more either."""
        return bool(self._inlet.poll(0)) and not self._outlet.poll(0)

    async def read(self, take: Take) -> None:
        """Give the lines of the client to ``take`` until it closes its end.

        The event loop itself calls ``take``, which saves a task switch for each line. What ``take``
        returns is done before the next line is taken.
        """
        await _LineReader(self._source, take).run()

    async def write(self, line: bytes) -> None:
        """Send a line; if the client is gone, the end of the input will tell."""
        with suppress(OSError):
            async with self._writing:
                rest = memoryview(self._unsent + line)
                try:
                    while rest:
                        await self._until_writable()
                        # A writable pipe takes this many bytes without blocking.
                        rest = rest[os.write(self._target, rest[: select.PIPE_BUF]) :]
                finally:
                    # A line of which nothing was written is dropped.
                    before = len(rest) - len(line)
                    self._unsent = bytes(rest if before < 0 else rest[:before])

    async def _until_writable(self) -> None:
        try:
            if not self._outlet.poll(0):
                await anyio.wait_writable(self._target)
        except PermissionError:  # an ordinary file, which is never waited for
            await anyio.lowlevel.checkpoint()


class _LineReader:
    """Reads a file descriptor whenever the event loop says that there is something to read."""

    def __init__(self, source: int, take: Take) -> None:
        self._source = source
        self._take = take
        self._rest = bytearray()
        self._is_too_long = False
        self._complete: deque[bytes] = deque()
        """Lines that wait until the work for an earlier line is done."""
        self._work: Work | None = None
        self._error: Exception | None = None
        self._has_ended = False
        self._has_stopped = anyio.Event()

    async def run(self) -> None:
        """Read until the end."""
        loop, context = asyncio.get_running_loop(), context_of_asyncio()
        while not self._has_ended:
            self._has_stopped = anyio.Event()
            try:
                context.run(loop.add_reader, self._source, self._read)
            except PermissionError:  # an ordinary file, which is never waited for
                self._feed(await anyio.to_thread.run_sync(os.read, self._source, _CHUNK))
            else:
                try:
                    await self._has_stopped.wait()
                finally:
                    loop.remove_reader(self._source)
            await self._catch_up()

    def _read(self) -> None:
        try:
            chunk = os.read(self._source, _CHUNK)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        self._feed(chunk)

    def _feed(self, chunk: bytes) -> None:
        self._complete.extend(self._lines(chunk))
        self._has_ended = not chunk
        try:
            self._take_lines()
        except Exception as error:  # noqa: BLE001 - raised again by the task
            self._error = error
        if self._has_ended or self._work or self._error:
            self._has_stopped.set()

    def _lines(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the lines that a chunk completes; the end of the input completes the last one."""
        *ended, rest = chunk.split(b"\n")
        if not chunk and self._rest:
            ended = [b""]
        for part in ended:
            yield _TOO_LONG if self._is_too_long else bytes(self._rest + part)
            self._rest.clear()
            self._is_too_long = False
        self._rest += rest
        if len(self._rest) > LONGEST_LINE:
            self._is_too_long = True
            self._rest.clear()

    def _take_lines(self) -> None:
        while self._complete and self._work is None:
            self._work = self._take(self._complete.popleft())

    async def _catch_up(self) -> None:
        """Do the work for a line that could not be done at once, and take the lines after it."""
        if self._error is not None:
            raise self._error
        while (work := self._work) is not None:
            await work()
            self._work = None
            self._take_lines()


@contextmanager
def claim_stdio() -> Generator[tuple[int, int]]:
    """Return descriptors of standard input and output that only the caller knows.

    Until the end, other code that reads standard input finds it empty, and what it writes to
    standard output goes to standard error.
    """
    own_input, own_output = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        yield own_input, own_output
    finally:
        os.close(nothing)
        with suppress(OSError):
            os.dup2(own_input, 0)
            os.dup2(own_output, 1)


async def serve_stdio(
    pipeline: RequestPipeline,
    wire: StdioWire,
    *,
    face: Face | None = None,
    drained: anyio.Event | None = None,
) -> None:
    """Serve the one client at the other end, until it closes its end.

    Args:
        pipeline: what responds to its requests.
        wire: how the client is reached.
        face: what the client is shown.
        drained: set once the running calls have finished; the responses that are not written
            yet are written then.
    """
    client = _Client(pipeline, Face() if face is None else face, wire)
    async with anyio.create_task_group() as around:
        if drained is not None:
            around.start_soon(_leave, drained, client.peer, around.cancel_scope)
        try:
            async with anyio.create_task_group() as tasks:
                await _read(wire, client, tasks, around.cancel_scope)
                # This ends the session, even if a line waits for a client that does not read.
                around.cancel_scope.deadline = anyio.current_time() + LAST_WORDS
                client.peer.close()
        finally:
            client.end()
        around.cancel_scope.cancel()


class _Client:
    """The client at the other end: its first request decides its era."""

    def __init__(self, pipeline: RequestPipeline, face: Face, wire: StdioWire) -> None:
        self._pipeline = pipeline
        self._face = face
        self._outlet = _LineOutlet(wire)
        self._is_modern: bool | None = None
        self._legacy_session = LegacySession(
            pipeline, session=_SESSION, principal=LOCAL, face=face, outlet=self._outlet
        )
        self.peer: ClientPeer = self._legacy_session.peer

    def accept(self, message: dict[str, Any]) -> Work | None:
        """Take a message; return what is left to do for it."""
        if "method" not in message or "id" not in message:
            self.peer.note(message)
            if "method" in message and self._is_modern is False:
                return partial(self._legacy_session.hear, message)
            return None
        respond = self._responder(message)
        return partial(self.peer.serve, self.peer.begin(message), respond, self._outlet)

    def end(self) -> None:
        """Let the gateway forget the client."""
        self._legacy_session.end()

    def _responder(self, message: dict[str, Any]) -> Callable[[], Awaitable[dict[str, Any]]]:
        method = message["method"]
        is_modern = method != "initialize" and _is_enveloped(message.get("params"))
        era = is_modern if self._is_modern is None else self._is_modern
        if method != _PROBE:
            self._is_modern = era
        if era:
            return partial(self._respond_modern, message)
        if is_modern:
            return _refuse_modern
        return partial(self._legacy_session.respond, message, self._outlet)

    async def _respond_modern(self, message: dict[str, Any]) -> dict[str, Any]:
        method, params = message["method"], message.get("params")
        if method == "initialize":
            raise RpcError(
                UNSUPPORTED_PROTOCOL_VERSION,
                "This connection speaks the 2026-07-28 protocol, which has no handshake.",
                {"supported": list(MODERN_PROTOCOL_VERSIONS)},
            )
        route = classify_inbound_request({"method": method, "params": params})
        if isinstance(route, InboundLadderRejection):
            raise refusal_of(route)
        channel = _NotifyingChannel(self.peer, self._outlet)
        request = ClientRequest(
            id=message["id"],
            method=method,
            params=params or {},
            client=client_of(route, principal=LOCAL, face=self._face),
            channel=channel,
        )
        try:
            return await self._pipeline.respond(request)
        finally:
            channel.close()


class _LineOutlet:
    """Writes messages as lines."""

    is_over = False  # the end of the input tells that the client is gone

    def __init__(self, wire: StdioWire) -> None:
        self._wire = wire

    async def send(self, message: bytes) -> None:
        await self._wire.write(message + b"\n")


class _NotifyingChannel(PeerChannel):
    __slots__ = ()

    async def ask(self, method: str, params: Mapping[str, Any]) -> Never:
        raise RpcError(INVALID_REQUEST, f"A client of this protocol version is not asked {method}.")


async def _refuse_modern() -> Never:
    raise RpcError(
        INVALID_REQUEST,
        "This connection was opened with the `initialize` handshake; requests of the "
        "2026-07-28 protocol are not accepted on it.",
    )


async def _read(
    wire: StdioWire, client: _Client, tasks: anyio.abc.TaskGroup, scope: anyio.CancelScope
) -> None:
    """Read the messages of a client until it closes its end and has its responses."""

    def take(line: bytes) -> Work | None:
        if not line.strip():
            return None
        value: Any = None
        try:
            value = read_json(line)
            message = check_message(value)
        except BodyTooLargeError as error:
            refusal = error_message(error.request_id, RpcError(INVALID_REQUEST, str(error)))
        except RpcError as error:
            refusal = error_message(request_id_in(value), error)
        else:
            work = client.accept(message)
            if work is not None and message["method"] == "initialize":
                # Its response is written before the next message is read.
                return partial(_while_taken, wire, scope, work)
            if work is not None:
                tasks.start_soon(work)
            return None
        return partial(_while_taken, wire, scope, partial(wire.write, refusal + b"\n"))

    await wire.read(take)
    await client.peer.wait_until_answered(GRACE)


async def _while_taken(wire: StdioWire, scope: anyio.CancelScope, work: Work) -> None:
    """Do work that may wait until the client reads; end the session if the client has left."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_end_once_left, wire, scope)
        await work()
        tasks.cancel_scope.cancel()


async def _end_once_left(wire: StdioWire, scope: anyio.CancelScope) -> None:
    # The reader task waits meanwhile, so it would not notice the end of the input.
    while not scope.cancel_called:
        await anyio.sleep(LAST_WORDS)
        if wire.is_left:
            scope.cancel()


async def _leave(drained: anyio.Event, peer: ClientPeer, scope: anyio.CancelScope) -> None:
    await drained.wait()
    await peer.wait_until_answered(GRACE)
    scope.cancel()


def _is_enveloped(params: Any) -> bool:
    match params:
        case {"_meta": {**meta}}:
            return PROTOCOL_VERSION_META_KEY in meta
        case _:
            return False
