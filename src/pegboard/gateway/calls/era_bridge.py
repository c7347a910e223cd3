"""Bridge: lets a server ask the client (elicitation, sampling, roots) across protocol eras.

| client | server | how a question reaches the client |
|---|---|---|
| legacy | either | the gateway asks the client while the call runs |
| modern | modern | the question is the result; the repeated call passes the answer on |
| modern | legacy | the call is parked, and the question is the result; the repeat resumes it |
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
"""The requests that a client can answer, by the capability that it declares."""


class Bridge:
    """Runs calls to the servers of one hub for clients of either era."""

    def __init__(self, hub: Hub, suspended_calls: SuspendedCalls, sessions: Sessions) -> None:
        self._hub = hub
        self._suspended_calls = suspended_calls
        self._sessions = sessions

    async def run(self, request: ClientRequest, server: str | None, work: Work) -> dict[str, Any]:
        """Run work that calls a server, and return its raw result, or a question as the result.

        Raises:
            RpcError: when the parked call to resume does not exist any more.
        """
        if server is None:
            return await work()
        client = request.client
        if client.era == "legacy":
            return await self._pushed(request, server, work)
        if self._era_of(server) == "modern":
            return await _passed(request, CallNotifier(request), _NEVER_ASKED, work)
        can = client.capabilities
        if not self._suspended_calls.resumes(request) and not any(kind in can for kind in _KINDS):
            return await _passed(request, CallNotifier(request), _CANNOT_BE_ASKED, work)

        async def parked(call: SuspendedCall) -> dict[str, Any]:
            return await _passed(request, call.notifier, _questions(call.ask, can), work)

        return await self._suspended_calls.run(request, parked)

    async def _pushed(self, request: ClientRequest, server: str, work: Work) -> dict[str, Any]:
        session = self._sessions.find(request.client)

        def note_page(question: object) -> None:
            if session is not None and session.listener is not None:
                session.listener.sent_to_page(server, question)

        notifier = CallNotifier(request, level=None if session is None else session.level)
        try:
            return await _with(_pushing(request, notifier, note_page), notifier, work)
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
    """Return the key of a client: its tenant, its subject and its session."""
    principal = client.principal
    return "\0".join((principal.tenant, principal.subject, client.session))


async def _with(context: CallContext, notifier: CallNotifier, work: Work) -> dict[str, Any]:
    token = context_of_call.set(context)
    try:
        result = await work()
    finally:
        context_of_call.reset(token)
    await notifier.finish()
    return result


async def _passed(
    request: ClientRequest, notifier: CallNotifier, questions: Questions, work: Work
) -> dict[str, Any]:
    return await _with(_passing(request, notifier, questions), notifier, work)


def _pushing(
    request: ClientRequest, notifier: CallNotifier, note_page: Callable[[object], None]
) -> CallContext:
    async def ask(method: str, params: Mapping[str, Any]) -> Mapping[str, Any] | None:
        note_page(params.get("elicitationId"))
        try:
            return await request.channel.ask(method, params)
        except RpcError as error:
            raise QuestionRefusedError(error.code, error.message, error.data) from error

    return CallContext(
        on_progress=notifier.progress if notifier.wants_progress else None,
        on_log=notifier.log,
        on_logs_lost=notifier.lost,
        log_level=notifier.log_level,
        questions=_questions(ask, request.client.capabilities),
        meta=own_meta_of(request),
        capabilities=request.client.capabilities,
        client=client_key(request.client),
    )


def _passing(request: ClientRequest, notifier: CallNotifier, questions: Questions) -> CallContext:
    params, level = request.params, notifier.log_level
    return CallContext(
        on_progress=notifier.progress if notifier.wants_progress else None,
        on_log=None if level is None else notifier.log,
        on_logs_lost=notifier.lost,
        log_level=level,
        questions=questions,
        passes_questions_on=True,
        params={key: params[key] for key in ("inputResponses", "requestState") if key in params},
        meta=own_meta_of(request),
        capabilities=request.client.capabilities,
        client=client_key(request.client),
    )


async def _cannot(method: str, _: Mapping[str, Any]) -> Mapping[str, Any] | None:
    # Not "declined", as if a user had seen the question: the server gets the client's error.
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
"""For servers of the modern era: they ask only with their results."""
_CANNOT_BE_ASKED = _questions(_cannot, ())
"""For clients that can answer no question."""
