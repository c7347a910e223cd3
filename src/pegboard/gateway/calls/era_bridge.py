"""Bridge: lets a call ask its client, in all four combinations of the two eras.

| client | server | who asks whom |
|---|---|---|
| legacy | either | the client is asked while the call runs |
| modern | modern | the question is the result; the repeated call carries the answer on |
| modern | legacy | the call is parked, the question is the result, the repeat resumes it |
"""

from collections.abc import Awaitable, Callable, Container, Mapping
from typing import Any, cast

from mcp_types import METHOD_NOT_FOUND, URL_ELICITATION_REQUIRED

from pegboard.errors import ProtocolError
from pegboard.gateway.calls.call_notifier import CallNotifier, own_meta_of
from pegboard.gateway.calls.suspended_calls import SuspendedCall, SuspendedCalls
from pegboard.gateway.request import Client, ClientRequest, RpcError, object_in
from pegboard.gateway.sessions import Sessions
from pegboard.hub import Hub
from pegboard.upstream import (
    CallContext,
    Question,
    QuestionRefusedError,
    Questions,
    context_of_call,
)

__all__ = ["Bridge", "client_key"]

Work = Callable[[], Awaitable[dict[str, Any]]]
Ask = Callable[[str, Mapping[str, Any]], Awaitable[Mapping[str, Any] | None]]

_KINDS = {
    "elicitation": "elicitation/create",
    "sampling": "sampling/createMessage",
    "roots": "roots/list",
}
"""What a client can be asked for, by the capability that says so."""


class Bridge:
    """Runs calls to the servers of one hub for clients of either era."""

    def __init__(self, hub: Hub, parking: SuspendedCalls, sessions: Sessions) -> None:
        self._hub = hub
        self._parking = parking
        self._sessions = sessions

    async def run(self, exchange: ClientRequest, server: str | None, work: Work) -> dict[str, Any]:
        """Run work that calls a server, and give its raw result, or a question as the result.

        Raises:
            RpcError: when what is to be resumed is not there any more.
        """
        if server is None:
            return await work()
        client = exchange.client
        if client.era == "legacy":
            return await self._pushed(exchange, server, work)
        if self._era_of(server) == "modern":
            return await _passed(exchange, CallNotifier(exchange), _NEVER_ASKED, work)
        can = client.capabilities
        if not self._parking.resumes(exchange) and not any(kind in can for kind in _KINDS):
            return await _passed(exchange, CallNotifier(exchange), _NOBODY, work)

        async def parked(call: SuspendedCall) -> dict[str, Any]:
            return await _passed(exchange, call.line, _questions(call.ask, can), work)

        return await self._parking.run(exchange, parked)

    async def _pushed(self, exchange: ClientRequest, server: str, work: Work) -> dict[str, Any]:
        session = self._sessions.find(exchange.client)

        def note_page(question: object) -> None:
            if session is not None and session.listener is not None:
                session.listener.sent_to_page(server, question)

        line = CallNotifier(exchange, level=None if session is None else session.level)
        try:
            return await _with(_pushing(exchange, line, note_page), line, work)
        except ProtocolError as error:
            pages: object = object_in(error.data).get("elicitations")
            if error.rpc_code == URL_ELICITATION_REQUIRED and isinstance(pages, list):
                for page in cast("list[object]", pages):
                    note_page(object_in(page).get("elicitationId"))
            raise

    def _era_of(self, server: str) -> str | None:
        said = self._hub.server(server).connection.negotiated
        return None if said is None else said.era


def client_key(client: Client) -> str:
    """Return what tells clients apart: who it is, and which conversation of theirs."""
    principal = client.principal
    return "\0".join((principal.tenant, principal.subject, client.session))


async def _with(context: CallContext, line: CallNotifier, work: Work) -> dict[str, Any]:
    token = context_of_call.set(context)
    try:
        result = await work()
    finally:
        context_of_call.reset(token)
    await line.finish()
    return result


async def _passed(
    exchange: ClientRequest, line: CallNotifier, questions: Questions, work: Work
) -> dict[str, Any]:
    return await _with(_passing(exchange, line, questions), line, work)


def _pushing(
    exchange: ClientRequest, line: CallNotifier, note_page: Callable[[object], None]
) -> CallContext:
    async def ask(method: str, params: Mapping[str, Any]) -> Mapping[str, Any] | None:
        note_page(params.get("elicitationId"))
        try:
            return await exchange.channel.ask(method, params)
        except RpcError as error:
            raise QuestionRefusedError(error.code, error.message, error.data) from error

    return CallContext(
        on_progress=line.progress if line.wants_progress else None,
        on_log=line.log,
        on_logs_lost=line.lost,
        log_level=line.log_level,
        questions=_questions(ask, exchange.client.capabilities),
        meta=own_meta_of(exchange),
        capabilities=exchange.client.capabilities,
        client=client_key(exchange.client),
    )


def _passing(exchange: ClientRequest, line: CallNotifier, questions: Questions) -> CallContext:
    params, level = exchange.params, line.log_level
    return CallContext(
        on_progress=line.progress if line.wants_progress else None,
        on_log=None if level is None else line.log,
        on_logs_lost=line.lost,
        log_level=level,
        questions=questions,
        passes_questions_on=True,
        params={key: params[key] for key in ("inputResponses", "requestState") if key in params},
        meta=own_meta_of(exchange),
        capabilities=exchange.client.capabilities,
        client=client_key(exchange.client),
    )


async def _cannot(method: str, _: Mapping[str, Any]) -> Mapping[str, Any] | None:
    # Not declined, as if a person had been asked: the server is told what it would be told alone.
    raise QuestionRefusedError(METHOD_NOT_FOUND, f"The client does not support {method}.")


def _questions(ask: Ask, can: Container[str]) -> Questions:
    def asks(kind: str) -> Question:
        method, asked = _KINDS[kind], ask if kind in can else _cannot

        async def question(_: str, params: Mapping[str, Any]) -> Mapping[str, Any] | None:
            return await asked(method, params)

        return question

    return Questions(
        elicitation=asks("elicitation"), sampling=asks("sampling"), roots=asks("roots")
    )


_NEVER_ASKED = Questions()
"""For servers of the modern era: they ask by their result, and by nothing else."""
_NOBODY = _questions(_cannot, ())
"""Of a client that cannot be asked anything."""
