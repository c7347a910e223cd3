"""SdkSession: one open session over the MCP SDK: requests in, raw results out."""

import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import anyio
import mcp_types as types
import msgspec
from mcp import Client, MCPError
from mcp.client import IncomingMessage
from mcp.shared.direct_dispatcher import DirectDispatcher
from pydantic import ValidationError

from pegboard.config import ServerConfig
from pegboard.errors import ProtocolError, ServerTimeoutError
from pegboard.upstream.call_context import CallContext
from pegboard.upstream.connection import Changed, Greeting, Negotiated, OnChanged, WatchedResources
from pegboard.upstream.errors.failures import failure_of
from pegboard.upstream.errors.translate import error_of
from pegboard.upstream.http.client import HttpPool
from pegboard.upstream.messages.jsonrpc import NotDirectError, sendable
from pegboard.upstream.server_requests import Questions
from pegboard.upstream.session.change_listener import watch_lists, watch_resources
from pegboard.upstream.session.fast_path import FastPath
from pegboard.upstream.session.in_flight import CallInFlight, CallsInFlight, reaches
from pegboard.upstream.session.request_routing import RequestRouting
from pegboard.upstream.stdio.process import GRACE
from pegboard.upstream.transport import OpenTransport, open_transport
from pegboard.version import installed_version

if TYPE_CHECKING:
    from mcp.shared.dispatcher import CallOptions

__all__ = ["SdkSession", "open_session"]

logger: logging.Logger = logging.getLogger("pegboard.upstream")

MAX_PAGES = 1000
MAX_ROUNDS = 10
"""How often a server may return ``input_required`` in one call."""
_CLIENT = types.Implementation(name="pegboard", version=installed_version())
_CHANGES: dict[type, Changed] = {
    types.ToolListChangedNotification: "tools",
    types.ResourceListChangedNotification: "resources",
    types.PromptListChangedNotification: "prompts",
}
_OF_THE_PROTOCOL = frozenset(
    {
        "progressToken",
        types.CLIENT_CAPABILITIES_META_KEY,
        types.CLIENT_INFO_META_KEY,
        types.LOG_LEVEL_META_KEY,
        types.PROTOCOL_VERSION_META_KEY,
    }
)
"""The keys of ``_meta`` that each hop sets for itself, so they are not passed on."""
_CALLS = frozenset({"tools/call", "resources/read", "prompts/get"})
"""Methods during which a server may send requests and logs; our own listings have no client."""
_NOTHING = CallContext()


@asynccontextmanager
async def open_session(  # noqa: PLR0913 - a session is told all of it
    config: ServerConfig,
    *,
    pool: HttpPool,
    greeting: Greeting = "ask",
    questions: Questions,
    on_lost: Callable[[str], None],
    on_changed: OnChanged,
    grace: float = GRACE,
) -> AsyncGenerator["SdkSession"]:
    """Connect, negotiate the era that the server speaks, and disconnect at the end.

    A process has ``grace`` seconds to end by itself.

    Raises:
        UpstreamError: when connecting failed; the message says why.
    """
    opened = open_transport(config, pool=pool, on_lost=on_lost, grace=grace)
    calls = CallsInFlight()
    routing = RequestRouting(config, questions, calls)
    client = Client(
        opened.transport,
        mode="legacy" if "legacy" in (greeting, config.protocol) else config.protocol,
        cache=None,
        client_info=_CLIENT,
        message_handler=partial(_receive, calls, on_changed),
        elicitation_callback=routing.callback("elicitation"),
        sampling_callback=routing.callback("sampling"),
        list_roots_callback=routing.callback("roots"),
    )
    entered = False
    raised: Exception | None = None
    try:
        async with client:
            if greeting == "ask" and config.protocol == "2026-07-28":
                await _discover(client)
            entered = True
            session = SdkSession(config, client, opened, on_changed=on_changed, routing=routing)
            try:
                yield session
            except Exception as error:  # noqa: BLE001 - raised again below, alone
                raised = error
            finally:
                session.end()
    except Exception as error:
        if not entered:
            raise error_of(error, config) from error
        # An error while closing: the session is over either way.
        context = {"server": config.name}
        logger.debug("close_failed: server %r", config.name, extra=context, exc_info=True)
    if raised is not None:
        raise raised


class SdkSession:
    """An open session; many requests may run at once."""

    def __init__(
        self,
        config: ServerConfig,
        client: Client,
        opened: OpenTransport,
        *,
        on_changed: OnChanged,
        routing: RequestRouting,
    ) -> None:
        self.negotiated: Negotiated = _negotiated(client)
        self.keeps_session: bool = opened.keeps_session()
        self.set_headers: Callable[[Mapping[str, str]], None] | None = None
        if opened.set_headers is not None:
            self.set_headers = partial(self._swap_headers, opened.set_headers)
        self._config = config
        self._client = client
        self._session = client.session
        self._on_changed = on_changed
        self._routing = routing
        self._calls = routing.calls
        self._log_level: str | None = None
        self._direct = opened.direct
        self._fast_path: FastPath | None = None
        if opened.direct is not None:
            self._fast_path = FastPath(opened.direct, client.session, self.negotiated.era)
        self._exchanges: set[anyio.CancelScope] = set()
        self._is_over = False

    def end(self) -> None:
        """End all running requests; on most transports the SDK does so itself."""
        self._is_over = True
        if self._fast_path is not None:
            self._fast_path.close()
        for exchange in self._exchanges:
            exchange.cancel()

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        tool: str = "",
        context: CallContext | None = None,
    ) -> dict[str, Any]:
        """Send one request and return its raw result; handle ``input_required`` on the way.

        Raises:
            UpstreamError: when it failed; its ``sent`` says whether the server may have acted.
        """
        brought = context or _NOTHING
        try:
            with CallInFlight(brought, self._calls if method in _CALLS else None) as call:
                if brought.log_level is not None and self.negotiated.era == "legacy":
                    await self._log_from(brought.log_level)
                sent = {**(params or {}), **brought.params}
                raw = await self._send(method, sent, call)
                if raw.get("resultType") == "input_required" and not brought.passes_questions_on:
                    raw = await self._answer_questions(method, sent, raw, call)
                await call.all_told()
        except Exception as error:
            why_lost = "" if self._direct is None else self._direct.why_lost
            raise error_of(error, self._config, tool=tool, why_lost=why_lost) from error
        return raw

    async def list_all(self, method: str) -> list[dict[str, Any]]:
        """Return the items of all pages of a list such as ``tools/list``.

        Raises:
            UpstreamError: when a page fails, the pages never end, or the time is up.
        """
        limit = self._config.timeouts.list
        # "tools/list" answers with "tools", "resources/templates/list" with "resourceTemplates".
        key = "resourceTemplates" if "templates" in method else method.partition("/")[0]
        items: list[dict[str, Any]] = []
        with anyio.move_on_after(limit) as scope:
            cursors: set[str] = set()
            cursor: str | None = None
            for _ in range(MAX_PAGES):
                page = await self.request(method, {"cursor": cursor} if cursor else {})
                found: object = page.get(key) or []
                more: object = page.get("nextCursor") or None
                if not isinstance(found, list) or not isinstance(more, str | None):
                    raise self._unreadable(method)
                cursor = more
                items.extend(cast("list[dict[str, Any]]", found))
                if cursor is None:
                    return items
                if cursor in cursors:
                    raise self._endless(method)
                cursors.add(cursor)
            raise self._endless(method)
        assert scope.cancelled_caught
        raise ServerTimeoutError(
            f"Server {self._config.name!r} did not finish `{method}` within {limit:g} s. Raise its "
            "`timeouts.list` if it needs longer.",
            server=self._config.name,
        )

    async def watch(self, resources: WatchedResources) -> None:
        """Report changes for as long as this runs; legacy servers send them unasked."""
        if self.negotiated.era == "legacy":
            return
        name, tell = self._config.name, self._on_changed
        lists = partial(watch_lists, self._client, self.negotiated, name=name, on_changed=tell)
        ours = partial(watch_resources, self._client, resources, name=name, on_changed=tell)
        async with anyio.create_task_group() as group:
            group.start_soon(lists)
            group.start_soon(ours)

    async def notify(self, method: str) -> None:
        """Send a notification without parameters; the modern era has none.

        Raises:
            UpstreamError: when it cannot be sent.
        """
        if self.negotiated.era != "legacy":
            return
        try:
            await self._session._dispatcher.notify(method, None)  # pyright: ignore[reportPrivateUsage]
        except Exception as error:
            raise error_of(error, self._config) from error

    async def relist_tools(self) -> None:
        """Let the SDK list the tools, so that it knows which arguments to copy into headers."""
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            page = await self._session.list_tools(
                params=types.PaginatedRequestParams(cursor=cursor) if cursor else None
            )
            cursor = page.next_cursor
            if cursor is None:
                return

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
        self._log_level = level
        try:
            await self._exchange("logging/setLevel", {"level": level}, None)
        except MCPError as error:
            name = self._config.name
            context = {"server": name, "reason": str(error)}
            logger.debug("log_level_refused: server %r: %s", name, error, extra=context)

    async def _send(
        self, method: str, params: Mapping[str, Any], call: CallInFlight
    ) -> dict[str, Any]:
        try:
            return await self._exchange(method, params, call)
        except MCPError as error:
            if error.code != types.HEADER_MISMATCH:
                raise
            # Refused before it ran, because the SDK has not seen the tool's schema yet.
            await self.relist_tools()
            return await self._exchange(method, params, call)

    async def _exchange(
        self, method: str, params: Mapping[str, Any], call: CallInFlight | None
    ) -> dict[str, Any]:
        # Like `ClientSession.send_request`, but without the SDK's models for the result: those
        # drop unknown fields, refuse malformed results, and cost as much as the rest of the call.
        data: dict[str, Any] = {"method": method, "params": dict(params)}
        options: CallOptions = {}
        session = self._session
        if call is not None:
            self._bring_along(data["params"], options, call)
        try:
            session._stamp(data, options)  # pyright: ignore[reportPrivateUsage]
        except UnicodeEncodeError:
            # Some of it goes into headers.
            sendable(data["params"], server=self._config.name)
            raise
        if call is not None and self.negotiated.era == "modern":
            # After the SDK, which sets the capabilities of the hub, and not of the client.
            meta = data["params"]["_meta"]
            meta[types.CLIENT_CAPABILITIES_META_KEY] = self._routing.capabilities(call)
        dispatcher = session._dispatcher  # pyright: ignore[reportPrivateUsage]
        fast_path = self._fast_path
        if fast_path is not None and call is not None and fast_path.supports(method, call.context):
            try:
                return await fast_path.request(data, options, call)
            except NotDirectError:
                logger.debug("long_way: %s to server %r", method, self._config.name)
        if not isinstance(dispatcher, DirectDispatcher):
            plain = sendable(data["params"], server=self._config.name)
            return await dispatcher.send_raw_request(method, plain, options)
        # A server in this process runs in the task of its caller, so `end` cancels this scope.
        with anyio.CancelScope() as exchange:
            self._exchanges.add(exchange)
            try:
                if self._is_over:
                    exchange.cancel()
                return await dispatcher.send_raw_request(method, data["params"], options)
            finally:
                self._exchanges.discard(exchange)
        raise MCPError(types.CONNECTION_CLOSED, "Connection closed")

    def _bring_along(
        self, params: dict[str, Any], options: "CallOptions", call: CallInFlight
    ) -> None:
        context = call.context
        if context.on_progress is not None:
            options["on_progress"] = call.progressed
        meta: dict[str, Any] = {**(params.get("_meta") or {}), **context.meta}
        for key in _OF_THE_PROTOCOL & meta.keys():
            del meta[key]
        if context.log_level is not None and self.negotiated.era == "modern":
            meta[types.LOG_LEVEL_META_KEY] = context.log_level
        if meta:
            params["_meta"] = meta

    async def _answer_questions(
        self, method: str, params: Mapping[str, Any], raw: dict[str, Any], call: CallInFlight
    ) -> dict[str, Any]:
        for round_ in range(MAX_ROUNDS):
            more: dict[str, Any] = {}
            if raw.get("requestState") is not None:
                more["requestState"] = raw["requestState"]
            asked: object = raw.get("inputRequests")
            if isinstance(asked, dict) and asked:
                more["inputResponses"] = await self._routing.answers(
                    cast("dict[str, Any]", asked), call
                )
            else:
                # Only a state: the client is to send the request again a little later.
                await anyio.sleep(min(0.05 * 2**round_, 0.25))
            raw = await self._send(method, {**params, **more}, call)
            if raw.get("resultType") != "input_required":
                return raw
        raise ProtocolError(
            f"Server {self._config.name!r} asked for input more than {MAX_ROUNDS} times.",
            server=self._config.name,
        )

    def _unreadable(self, method: str) -> ProtocolError:
        return ProtocolError(
            f"Server {self._config.name!r} does not return a list for `{method}`.",
            server=self._config.name,
        )

    def _endless(self, method: str) -> ProtocolError:
        return ProtocolError(
            f"Server {self._config.name!r} never ends its list `{method}`.",
            server=self._config.name,
        )


async def _discover(client: Client) -> None:
    """Ask for the capabilities of the server: the SDK does not if the protocol is configured."""
    try:
        raw = await client.session.send_discover(client.session.protocol_version or "")
        client.session.adopt(types.DiscoverResult.model_validate(raw))
    except (MCPError, RuntimeError, ValidationError) as error:
        if isinstance(error, MCPError) and failure_of(error.error) is not None:
            raise
        # The configuration names this protocol, so the capabilities may stay unknown.


def _negotiated(client: Client) -> Negotiated:
    session = client.session
    info = session.server_info
    capabilities = session.server_capabilities
    return Negotiated(
        era="legacy" if session.initialize_result is not None else "modern",
        version=session.protocol_version or "",
        server_name=info.name if info else "",
        server_version=(info.version or "") if info else "",
        instructions=session.instructions or "",
        capabilities=capabilities.model_dump(by_alias=True, mode="json", exclude_none=True)
        if capabilities
        else {},
    )


async def _receive(calls: CallsInFlight, on_changed: OnChanged, message: IncomingMessage) -> None:
    changed = _CHANGES.get(type(message))
    if changed is not None:
        on_changed(changed, "")
    elif isinstance(message, types.ResourceUpdatedNotification):
        on_changed("resource", str(message.params.uri))
    elif isinstance(message, types.ElicitCompleteNotification):
        on_changed("elicitation", message.params.elicitation_id)
    elif isinstance(message, types.LoggingMessageNotification):
        logged = message.params.model_dump(by_alias=True, mode="json", exclude_unset=True)
        await calls.log(logged)
