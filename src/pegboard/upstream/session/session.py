"""UpstreamSession: one open session with a server: requests in, raw results out."""

import logging
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from itertools import count
from typing import Any, cast

import anyio
import msgspec
from opentelemetry.propagate import inject
from opentelemetry.trace import ProxyTracerProvider, SpanKind, get_tracer, get_tracer_provider

from pegboard.config import ServerConfig
from pegboard.errors import ProtocolError, UpstreamError
from pegboard.upstream.call_context import CallContext
from pegboard.upstream.connection import (
    Greeting,
    Negotiated,
    OnChanged,
    ResumePoint,
    WatchedResources,
)
from pegboard.upstream.events import ServerLogger
from pegboard.upstream.http.pool import HttpPool
from pegboard.upstream.http.streamable_http import StreamableHttpChannel
from pegboard.upstream.messages.channel import MessageChannel
from pegboard.upstream.messages.extensions import check_result_type, is_task
from pegboard.upstream.messages.failures import FailedError, Failure
from pegboard.upstream.messages.jsonrpc import ServerRpcError
from pegboard.upstream.messages.protocol import (
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    LOG_LEVEL,
    MODERN_FIELDS,
    PROTOCOL_VERSION,
    marked_headers,
    param_headers,
    request_headers,
    without_modern_fields,
)
from pegboard.upstream.server_requests import Questions
from pegboard.upstream.session.in_flight import CallInFlight, CallsInFlight, reaches
from pegboard.upstream.session.incoming import Incoming, OnEvent
from pegboard.upstream.session.list_pages import read_pages
from pegboard.upstream.session.negotiation import CLIENT, negotiate
from pegboard.upstream.session.request_routing import RequestRouting
from pegboard.upstream.session.subscriptions import watch_lists, watch_resources
from pegboard.upstream.session.translate import error_of
from pegboard.upstream.stdio.process import GRACE
from pegboard.upstream.transport import open_channel

__all__ = ["UpstreamSession", "open_session"]

logger: logging.Logger = logging.getLogger("pegboard.upstream")

MAX_ROUNDS = 10
"""How often a server may return ``input_required`` in one call."""
MAX_QUESTIONS = 100
"""How many inputs a server may ask for in one such result."""
_OF_THE_PROTOCOL = frozenset(
    {"progressToken", CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, PROTOCOL_VERSION}
)
"""The keys of ``_meta`` that each hop sets for itself, so they are not passed on."""
_CALLS = frozenset({"tools/call", "resources/read", "prompts/get", "tasks/result"})
"""Methods during which a server may send requests and logs; our own listings have no client."""
_BEGINNING = frozenset({"initialize", "server/discover"})
"""Methods that the protocol forbids to cancel."""
_NOTHING = CallContext()
_numbers = count(1)
"""Ids that no other request of this process has, to any server: a repeated or late response never
matches another request."""
_SECONDS_FOR_GOODBYE = 5.0
_tracer = get_tracer("pegboard")


@asynccontextmanager
async def open_session(  # noqa: PLR0913 - a session is told all of it
    config: ServerConfig,
    *,
    pool: HttpPool,
    greeting: Greeting = "ask",
    questions: Questions,
    on_lost: Callable[[str], None],
    on_changed: OnChanged,
    log: ServerLogger | None = None,
    grace: float = GRACE,
) -> AsyncGenerator["UpstreamSession"]:
    """Connect, negotiate the era that the server speaks, and disconnect at the end.

    A process has ``grace`` seconds to end by itself, and ``log`` gets what it writes to standard
    error.

    Raises:
        UpstreamError: when connecting failed; the message says why.
    """
    routing = RequestRouting(config, questions, CallsInFlight())
    incoming = Incoming(config.name, routing, on_changed=on_changed)
    entered = False
    raised: Exception | None = None
    try:
        async with (
            open_channel(
                config,
                pool=pool,
                receive=incoming.receive,
                on_lost=on_lost,
                is_legacy="legacy" in (greeting, config.protocol),
                log=log,
                grace=grace,
            ) as channel,
            anyio.create_task_group() as group,
        ):
            incoming.begin(channel, group)
            session = UpstreamSession(config, channel, incoming, routing, on_changed=on_changed)
            await session.begin(greeting)
            entered = True
            try:
                yield session
            except Exception as error:  # noqa: BLE001 - raised again below, alone
                raised = error
            group.cancel_scope.cancel()
    except Exception as error:
        if not entered:
            raise error_of(error, config, opening=True) from error
        # An error while closing: the session is over either way.
        context = {"server": config.name}
        logger.debug("close_failed: server %r", config.name, extra=context, exc_info=True)
    if raised is not None:
        raise raised


class UpstreamSession:
    """An open session; many requests may run at once."""

    negotiated: Negotiated

    def __init__(
        self,
        config: ServerConfig,
        channel: MessageChannel,
        incoming: Incoming,
        routing: RequestRouting,
        *,
        on_changed: OnChanged,
    ) -> None:
        self.set_headers: Callable[[Mapping[str, str]], None] | None = None
        if channel.set_headers is not None:
            self.set_headers = partial(self._swap_headers, channel.set_headers)
        self._config = config
        self._channel = channel
        self._incoming = incoming
        incoming.tasks.exchange = self._exchange
        self._routing = routing
        self._on_changed = on_changed
        self._log_level: str | None = None
        self._schemas: dict[str, object] = {}
        """The input schemas of tools, by name, until it is known which arguments go to headers."""
        self._marks: dict[str, Mapping[tuple[str, ...], str]] = {}

    @property
    def keeps_session(self) -> bool:
        """True when the server may keep state between our calls."""
        return self._channel.keeps_session

    async def begin(self, greeting: Greeting) -> None:
        """Negotiate the era, and tell a server of the handshake era that the session is open.

        Raises:
            ServerRpcError: when the server refuses.
            FailedError: when it does not answer.
            ProtocolError: when it speaks no version that we know.
        """

        async def ask(
            method: str, params: Mapping[str, Any], headers: Mapping[str, str]
        ) -> dict[str, Any]:
            return await self._exchange(method, params, None, headers=headers)

        self.negotiated = await negotiate(
            ask,
            self._config,
            greeting=greeting,
            capabilities=self._routing.client_capabilities,
        )
        if self.negotiated.era == "modern":
            return
        self._incoming.is_legacy = True
        if isinstance(self._channel, StreamableHttpChannel):
            self._channel.agree_on(self.negotiated.version)
        note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        await self._channel.send(note, {})
        if isinstance(self._channel, StreamableHttpChannel):
            self._channel.listen()

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        tool: str = "",
        context: CallContext | None = None,
        resume: ResumePoint | None = None,
    ) -> dict[str, Any]:
        """Send one request and return its raw result; handle ``input_required`` on the way.

        With ``resume``, only the rest of its response is asked for.

        Raises:
            UpstreamError: when it failed; its ``sent`` says whether the server may have acted.
        """
        brought = context or _NOTHING
        try:
            calls = self._routing.calls if method in _CALLS else None
            with CallInFlight(brought, calls) as call:
                if brought.log_level is not None and self.negotiated.era == "legacy":
                    await self._log_from(brought.log_level)
                sent = {**(params or {}), **brought.params}
                raw = await self._exchange(method, sent, call, resume=resume)
                if self.negotiated.era == "legacy" and not MODERN_FIELDS.isdisjoint(raw):
                    raw = without_modern_fields(raw)
                if raw.get("resultType") == "input_required" and not brought.passes_questions_on:
                    raw = await self._answer_questions(method, sent, raw, call)
                if raw.get("resultType", "complete") != "complete" or "content" not in raw:
                    check_result_type(raw, method, server=self._config.name)
                    raw = self._routing.shown(raw)
                    if method == "tools/call" and is_task(raw):
                        # Without a pause, so that the caller cannot leave before it is followed.
                        if self.negotiated.era == "legacy":
                            self._incoming.tasks.began(raw, call)
                        return raw
                await call.all_told()
        except Exception as error:
            raise error_of(error, self._config, tool=tool) from error
        return raw

    async def list_all(self, method: str) -> list[dict[str, Any]]:
        """Return the items of all pages of a list such as ``tools/list``.

        Raises:
            UpstreamError: when a page failed, or the list is too long or never ends.
        """
        items = await read_pages(self.request, method, self._config)
        self._learn(method, items)
        return items

    async def watch(self, resources: WatchedResources) -> None:
        """Report changes for as long as this runs; legacy servers send them unasked."""
        if self.negotiated.era == "legacy":
            return
        name, tell = self._config.name, self._on_changed
        lists = partial(watch_lists, self.listen, self.negotiated, name=name, on_changed=tell)
        ours = partial(watch_resources, self.listen, resources, name=name, on_changed=tell)
        async with anyio.create_task_group() as group:
            group.start_soon(lists)
            group.start_soon(ours)

    async def listen(self, wanted: Mapping[str, Any], on_event: OnEvent) -> None:
        """Receive the changes that a filter names, until a modern server ends the stream.

        Raises:
            ServerRpcError: when the server refuses.
            FailedError: when the stream breaks, or the server cancels it.
        """
        number = f"listen-{next(_numbers)}"
        params, headers = self._stamped("subscriptions/listen", {"notifications": wanted}, None)
        message = {
            "jsonrpc": "2.0",
            "id": number,
            "method": "subscriptions/listen",
            "params": params,
        }

        def heard(method: str, params: Mapping[str, Any]) -> None:
            if method == "notifications/cancelled":
                scope.cancel()
            else:
                on_event(method, params)

        self._incoming.expect_events(number, heard)
        try:
            with anyio.CancelScope() as scope:
                await self._channel.request(message, headers, self._incoming.receive)
                return
        except anyio.get_cancelled_exc_class():
            self._say_cancelled(number)
            raise
        finally:
            self._incoming.forget(number)
        raise FailedError(Failure(kind="lost", message="The server cancelled the subscription."))

    async def notify(self, method: str) -> None:
        """Send a notification without parameters; the modern era has none.

        Raises:
            UpstreamError: when it cannot be sent.
        """
        if self.negotiated.era != "legacy":
            return
        try:
            await self._channel.send({"jsonrpc": "2.0", "method": method}, {})
        except Exception as error:
            raise error_of(error, self._config) from error

    def follow_task(
        self, task_id: str, context: CallContext, on_status: Callable[[], object]
    ) -> None:
        """Deliver what a server of the handshake era sends about a task, until `forget_task`."""
        if self.negotiated.era == "legacy":
            self._incoming.tasks.follow(task_id, context, on_status)

    def forget_task(self, task_id: str, *, is_over: bool) -> None:
        """Deliver no more of a task; one that is not over may still send something."""
        self._incoming.tasks.forget(task_id, is_over=is_over)

    def _swap_headers(
        self, send: Callable[[Mapping[str, str]], None], headers: Mapping[str, str]
    ) -> None:
        send(headers)
        # So that they are redacted like the configured ones.
        merged = {**self._config.headers, **headers}
        self._config = msgspec.structs.replace(self._config, headers=merged)

    async def _log_from(self, level: str) -> None:
        """Lower the log level of a legacy server to the lowest that a call of the session wants."""
        is_enough = self._log_level is not None and reaches(level, self._log_level)
        if is_enough or "logging" not in self.negotiated.capabilities:
            return
        before, self._log_level = self._log_level, level
        try:
            await self._exchange("logging/setLevel", {"level": level}, None)
        except (FailedError, ServerRpcError) as error:
            # The call itself goes on; it may want the level again next time.
            self._log_level = before
            name = self._config.name
            context = {"server": name, "reason": str(error)}
            logger.debug("log_level_refused: server %r: %s", name, error, extra=context)

    async def _exchange(
        self,
        method: str,
        params: Mapping[str, Any],
        call: CallInFlight | None,
        *,
        headers: Mapping[str, str] | None = None,
        resume: ResumePoint | None = None,
    ) -> dict[str, Any]:
        """Send a request and return its raw result; with headers, its parameters are complete."""
        number = next(_numbers) if resume is None else resume.number
        if headers is None:
            params, headers = self._stamped(method, params, call)
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": number, "method": method}
        message["params"] = params
        receive, has_token = self._incoming.receive, False
        if call is not None:
            call.number = number
            receive = partial(receive, came_with=call)
            has_token = call.context.on_progress is not None
            if has_token:
                meta: dict[str, Any] = {**(params.get("_meta") or {}), "progressToken": number}
                message["params"] = {**params, "_meta": meta}
                self._incoming.expect_progress(number, call)
        try:
            if resume is not None:
                assert isinstance(self._channel, StreamableHttpChannel)
                return await self._channel.resume(number, resume.last_event, receive)
            if isinstance(get_tracer_provider(), ProxyTracerProvider):
                # Tracing is off, and it would cost a tenth of the call.
                return await self._channel.request(message, headers, receive)
            with _span_of(message):
                return await self._channel.request(message, headers, receive)
        except anyio.get_cancelled_exc_class():
            if method not in _BEGINNING:
                self._say_cancelled(number)
            raise
        finally:
            if has_token:
                self._incoming.forget(number)

    def _say_cancelled(self, number: int | str) -> None:
        """Tell the server that the caller is gone; closing the connection may have told it."""
        if self.negotiated.era == "legacy" or not self._channel.cancels_by_closing:
            # In the background: the server may hang, which is why the caller has left.
            self._incoming.in_background(partial(self._cancel, number))

    async def _cancel(self, number: int | str) -> None:
        note = {
            "jsonrpc": "2.0",
            "method": "notifications/cancelled",
            "params": {"requestId": number, "reason": "caller cancelled"},
        }
        with anyio.move_on_after(_SECONDS_FOR_GOODBYE):
            try:
                await self._channel.send(note, {})
            except (FailedError, ServerRpcError, UpstreamError) as error:
                logger.debug("cancellation_not_sent: server %r: %s", self._config.name, error)

    def _stamped(
        self, method: str, params: Mapping[str, Any], call: CallInFlight | None
    ) -> tuple[dict[str, Any], Mapping[str, str]]:
        """Return the parameters and headers of a request, with what the era wants in them."""
        stamped = dict(params)
        meta: dict[str, Any] = dict(stamped.get("_meta") or {})
        if call is not None:
            meta.update(call.context.meta)
            for key in _OF_THE_PROTOCOL & meta.keys():
                del meta[key]
        headers: Mapping[str, str] = {}
        if self.negotiated.era == "modern":
            if call is not None and call.context.log_level is not None:
                meta[LOG_LEVEL] = call.context.log_level
            meta[PROTOCOL_VERSION] = self.negotiated.version
            meta[CLIENT_INFO] = CLIENT
            meta[CLIENT_CAPABILITIES] = (
                self._routing.modern_capabilities
                if call is None
                else self._routing.capabilities(call, method)
            )
            headers = self._headers_of(method, stamped)
        if meta:
            stamped["_meta"] = meta
        return stamped, headers

    def _headers_of(self, method: str, params: Mapping[str, Any]) -> Mapping[str, str]:
        if self._channel.set_headers is None:
            return {}
        try:
            headers = request_headers(self.negotiated.version, method, params)
            if method == "tools/call":
                headers.update(param_headers(self._marks_of(params), params.get("arguments") or {}))
        except UnicodeEncodeError:
            # The body cannot be encoded either, which says why.
            return {}
        return headers

    def _marks_of(self, params: Mapping[str, Any]) -> Mapping[tuple[str, ...], str]:
        name = params.get("name")
        if not isinstance(name, str):
            return {}
        if name in self._schemas:
            self._marks[name] = marked_headers(self._schemas.pop(name))
        return self._marks.get(name, {})

    def _learn(self, method: str, items: list[dict[str, Any]]) -> None:
        """Remember the schemas of tools: some of their arguments may belong in headers."""
        if method == "tools/list" and self.negotiated.era == "modern":
            self._marks.clear()
            self._schemas = {it["name"]: it.get("inputSchema") for it in items if _has_name(it)}

    async def _answer_questions(
        self, method: str, params: Mapping[str, Any], raw: dict[str, Any], call: CallInFlight
    ) -> dict[str, Any]:
        for round_ in range(MAX_ROUNDS):
            more: dict[str, Any] = {}
            if raw.get("requestState") is not None:
                more["requestState"] = raw["requestState"]
            asked: object = raw.get("inputRequests")
            if isinstance(asked, dict) and len(cast("dict[str, Any]", asked)) > MAX_QUESTIONS:
                raise ProtocolError(
                    f"Server {self._config.name!r} asked for more than {MAX_QUESTIONS} inputs at "
                    "once.",
                    server=self._config.name,
                )
            if isinstance(asked, dict) and asked:
                more["inputResponses"] = await self._routing.answers(
                    cast("dict[str, Any]", asked), call
                )
            else:
                # Only a state: the client is to send the request again a little later.
                await anyio.sleep(min(0.05 * 2**round_, 0.25))
            raw = await self._exchange(method, {**params, **more}, call)
            if raw.get("resultType") != "input_required":
                return raw
        raise ProtocolError(
            f"Server {self._config.name!r} asked for input more than {MAX_ROUNDS} times.",
            server=self._config.name,
        )


@contextmanager
def _span_of(message: dict[str, Any]) -> Generator[None]:
    """Trace a request, and send its trace along."""
    method, params = message["method"], message["params"]
    name = params.get("name")
    with _tracer.start_as_current_span(
        f"MCP send {method} {name}" if isinstance(name, str) else f"MCP send {method}",
        kind=SpanKind.CLIENT,
        attributes={"mcp.method.name": method, "jsonrpc.request.id": str(message["id"])},
    ):
        meta = dict(params.get("_meta") or {})
        inject(meta)
        message["params"] = {**params, "_meta": meta}
        yield


def _has_name(item: object) -> bool:
    return isinstance(item, dict) and isinstance(cast("dict[str, Any]", item).get("name"), str)
