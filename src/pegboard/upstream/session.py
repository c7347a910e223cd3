"""Session over the MCP SDK: one open client, requests in, raw results out."""

import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import anyio
import mcp_types as types
import msgspec
from mcp import Client, MCPError
from mcp.client import ClientRequestContext, IncomingMessage
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.shared.direct_dispatcher import DirectDispatcher
from pydantic import BaseModel, ValidationError

from pegboard.config import ServerConfig
from pegboard.errors import ProtocolError, ServerTimeoutError
from pegboard.upstream.backoff import FIRST_PAUSE, LONGEST_PAUSE
from pegboard.upstream.connection import (
    ListChanged,
    Negotiated,
    OnProgress,
)
from pegboard.upstream.http.client import HttpPool
from pegboard.upstream.questions import Question, Questions, ask
from pegboard.upstream.translate import error_of
from pegboard.upstream.transport import OpenTransport, open_transport

if TYPE_CHECKING:
    from mcp.shared.dispatcher import CallOptions, ProgressFnT

__all__ = ["SdkSession", "open_session"]

logger: logging.Logger = logging.getLogger("pegboard.upstream")

MAX_PAGES = 1000
MAX_ROUNDS = 10
"""How often a server may ask back in the course of one call."""
_CLIENT = types.Implementation(name="pegboard", version="0.1")
_CHANGES: dict[type, ListChanged] = {
    types.ToolListChangedNotification: "tools",
    types.ResourceListChangedNotification: "resources",
    types.PromptListChangedNotification: "prompts",
}


@asynccontextmanager
async def open_session(
    config: ServerConfig,
    *,
    pool: HttpPool,
    legacy: bool = False,
    questions: Questions,
    on_lost: Callable[[str], None],
    on_changed: Callable[[ListChanged], None],
) -> AsyncGenerator["SdkSession"]:
    """Connect, shake hands in the era the server speaks, and disconnect at the end.

    Raises:
        UpstreamError: when connecting failed, saying why.
    """
    opened = open_transport(config, pool=pool, on_lost=on_lost)
    client = _client(config, opened, legacy=legacy, questions=questions, on_changed=on_changed)
    entered = False
    raised: Exception | None = None
    try:
        async with client:
            entered = True
            session = SdkSession(config, client, opened, on_changed)
            try:
                yield session
            except Exception as error:  # noqa: BLE001 - raised again below, alone
                raised = error
            finally:
                session.end()
    except Exception as error:
        if not entered:
            raise error_of(error, config) from error
        # Whatever happens while leaving: the session is over either way.
        context = {"server": config.name}
        logger.debug("close_failed: server %r", config.name, extra=context, exc_info=True)
    if raised is not None:
        raise raised


def _client(
    config: ServerConfig,
    opened: OpenTransport,
    *,
    legacy: bool,
    questions: Questions,
    on_changed: Callable[[ListChanged], None],
) -> Client:
    async def receive(message: IncomingMessage) -> None:
        changed = _CHANGES.get(type(message))
        if changed is not None:
            on_changed(changed)

    return Client(
        opened.transport,
        mode="legacy" if legacy or config.protocol == "legacy" else config.protocol,
        cache=None,
        client_info=_CLIENT,
        message_handler=receive,
        elicitation_callback=_asks(config, questions.elicitation, types.ElicitResult),
        sampling_callback=_asks(config, questions.sampling, types.CreateMessageResult),
        list_roots_callback=_asks_for_roots(config, questions.roots),
    )


class SdkSession:
    """An open client; many requests may be under way at once."""

    def __init__(
        self,
        config: ServerConfig,
        client: Client,
        opened: OpenTransport,
        on_changed: Callable[[ListChanged], None],
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
        self._exchanges: set[anyio.CancelScope] = set()
        self._is_over = False

    def end(self) -> None:
        """End what is under way; on most transports the SDK does so itself."""
        self._is_over = True
        for exchange in self._exchanges:
            exchange.cancel()

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        tool: str = "",
        on_progress: OnProgress | None = None,
    ) -> dict[str, Any]:
        """Send one request and return its raw result; answer the server if it asks back.

        Raises:
            UpstreamError: whatever went wrong; its ``sent`` says whether the server may have acted.
        """
        try:
            raw = await self._send(method, params, on_progress)
            if raw.get("resultType") == "input_required":
                raw = await self._answer_questions(method, params or {}, raw, on_progress)
        except Exception as error:
            raise error_of(error, self._config, tool=tool) from error
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

    async def watch(self) -> None:
        """Report changed lists for as long as it lasts; legacy servers tell without being asked."""
        if self.negotiated.era == "legacy":
            return
        offered = self.negotiated.capabilities
        wanted = {
            kind: bool(cast("dict[str, object]", offered.get(kind) or {}).get("listChanged"))
            for kind in ("tools", "prompts", "resources")
        }
        pause = FIRST_PAUSE
        while any(wanted.values()):
            try:
                async with self._client.listen(
                    tools_list_changed=wanted["tools"],
                    prompts_list_changed=wanted["prompts"],
                    resources_list_changed=wanted["resources"],
                ) as events:
                    pause = FIRST_PAUSE
                    async for event in events:
                        kind = type(event).__name__.removesuffix("ListChanged").lower()
                        if kind in wanted:
                            self._on_changed(cast("ListChanged", kind))
            except ListenNotSupportedError:
                return
            except (MCPError, SubscriptionLost, TimeoutError) as error:
                if isinstance(error, MCPError) and error.code == types.METHOD_NOT_FOUND:
                    return
                name, reason = self._config.name, type(error).__name__
                context = {"server": name, "reason": reason}
                logger.debug("watch_interrupted: server %r: %s", name, reason, extra=context)
            await anyio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)
            # Nobody told what happened meanwhile.
            self._on_changed("tools")

    async def relist_tools(self) -> None:
        """Let the SDK see the tools, so that it knows which arguments to mirror into headers."""
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
        # So that they are hidden like the configured ones.
        merged = {**self._config.headers, **headers}
        self._config = msgspec.structs.replace(self._config, headers=merged)

    async def _send(
        self, method: str, params: Mapping[str, Any] | None, on_progress: OnProgress | None
    ) -> dict[str, Any]:
        try:
            return await self._exchange(method, params, on_progress)
        except MCPError as error:
            if error.code != types.HEADER_MISMATCH:
                raise
            # Refused before it ran, because the SDK has not seen the tool's schema yet.
            await self.relist_tools()
            return await self._exchange(method, params, on_progress)

    async def _exchange(
        self, method: str, params: Mapping[str, Any] | None, on_progress: OnProgress | None
    ) -> dict[str, Any]:
        # What `ClientSession.send_request` does, except that the result is not forced into the
        # SDK's models: those drop fields they do not know, refuse what careless servers send, and
        # cost as much as the rest of the call.
        data: dict[str, Any] = {"method": method, "params": dict(params or {})}
        options: CallOptions = {}
        if on_progress is not None:
            options["on_progress"] = cast("ProgressFnT", on_progress)
        session = self._session
        session._stamp(data, options)  # pyright: ignore[reportPrivateUsage]
        dispatcher = session._dispatcher  # pyright: ignore[reportPrivateUsage]
        if not isinstance(dispatcher, DirectDispatcher):
            return await dispatcher.send_raw_request(method, data["params"], options)
        # A server in this process runs in the task of its caller, whom nobody else would wake.
        with anyio.CancelScope() as exchange:
            self._exchanges.add(exchange)
            try:
                if self._is_over:
                    exchange.cancel()
                return await dispatcher.send_raw_request(method, data["params"], options)
            finally:
                self._exchanges.discard(exchange)
        raise MCPError(types.CONNECTION_CLOSED, "Connection closed")

    async def _answer_questions(
        self,
        method: str,
        params: Mapping[str, Any],
        raw: dict[str, Any],
        on_progress: OnProgress | None,
    ) -> dict[str, Any]:
        for round_ in range(MAX_ROUNDS):
            asked = types.InputRequiredResult.model_validate(raw)
            more: dict[str, Any] = {}
            if asked.request_state is not None:
                more["requestState"] = asked.request_state
            if asked.input_requests:
                more["inputResponses"] = {
                    key: await self._answer(key, question)
                    for key, question in asked.input_requests.items()
                }
            else:
                # Only a state: the server wants to be asked again a little later.
                await anyio.sleep(min(0.05 * 2**round_, 0.25))
            raw = await self._send(method, {**params, **more}, on_progress)
            if raw.get("resultType") != "input_required":
                return raw
        raise ProtocolError(
            f"Server {self._config.name!r} asked back more than {MAX_ROUNDS} times.",
            server=self._config.name,
        )

    async def _answer(self, key: str, question: types.InputRequest) -> dict[str, Any]:
        meta = question.params.meta if question.params else None
        context = ClientRequestContext(session=self._session, request_id=key, meta=meta)
        answer = await self._session.dispatch_input_request(context, question)
        if isinstance(answer, types.ErrorData):
            raise ProtocolError(
                f"Server {self._config.name!r} asked a question that got no answer: "
                f"{answer.message}.",
                server=self._config.name,
                rpc_code=answer.code,
            )
        return answer.model_dump(by_alias=True, mode="json", exclude_none=True)

    def _unreadable(self, method: str) -> ProtocolError:
        return ProtocolError(
            f"Server {self._config.name!r} answers `{method}` with something that is no list.",
            server=self._config.name,
        )

    def _endless(self, method: str) -> ProtocolError:
        return ProtocolError(
            f"Server {self._config.name!r} never ends its list `{method}`.",
            server=self._config.name,
        )


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


def _asks(config: ServerConfig, question: Question | None, kind: type[BaseModel]) -> Any:
    if question is None:
        return None

    async def answer(_: ClientRequestContext, params: BaseModel) -> object:
        asked = params.model_dump(by_alias=True, mode="json", exclude_none=True)
        return await _answer_to(question, config.name, asked, kind)

    return answer


def _asks_for_roots(config: ServerConfig, question: Question | None) -> Any:
    if question is None:
        return None

    async def answer(_: ClientRequestContext) -> object:
        return await _answer_to(question, config.name, {}, types.ListRootsResult)

    return answer


async def _answer_to(
    question: Question, server: str, asked: Mapping[str, Any], kind: type[BaseModel]
) -> object:
    # What went wrong is for the log, and not in words to a server: they may hold anything.
    context = {"server": server}
    try:
        answer = await ask(question, server, asked)
    except Exception:
        logger.exception("question_failed: server %r", server, extra=context)
        return types.ErrorData(code=types.INTERNAL_ERROR, message="The question failed")
    if answer is None:
        if kind is types.ElicitResult:
            return types.ElicitResult(action="decline")
        return types.ErrorData(code=types.INVALID_REQUEST, message="Declined")
    try:
        return kind.model_validate(_as_dict(answer))
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, it['loc']))}: {it['msg']}" for it in error.errors())
        logger.error(  # noqa: TRY400 - the trace leads nowhere
            "bad_answer: what was returned to server %r is no %s (%s). %s",
            *(server, kind.__name__, wrong, _SHAPES[kind]),
            extra=context,
        )
        message = f"The answer is no {kind.__name__}; the log of the client says more"
        return types.ErrorData(code=types.INTERNAL_ERROR, message=message)


def _as_dict(answer: object) -> object:
    # Of all mappings, the models take dicts only.
    return {**cast("Mapping[str, Any]", answer)} if isinstance(answer, Mapping) else answer


_SHAPES: dict[type[BaseModel], str] = {
    types.ElicitResult: 'Return {"action": "accept", "content": {...}}, or None to decline.',
    types.CreateMessageResult: 'Return {"role": "assistant", "model": "...", "content": '
    '{"type": "text", "text": "..."}}, or None to refuse.',
    types.ListRootsResult: 'Return {"roots": [{"uri": "file:///..."}]}, or None to refuse.',
}
"""What an answer looks like, for whoever got it wrong."""
