"""Bridge: lets a server ask the client (elicitation, sampling, roots) across protocol eras.

| client | server | how a question reaches the client |
|---|---|---|
| legacy | either | the gateway asks the client while the call runs |
| modern | modern | the question is the result; the repeated call passes the answer on |
| modern | modern, in a task | as below: the call goes on at the server while the client is asked |
| modern | legacy | the call is parked, and the question is the result; the repeat resumes it |

A call that is a task of the client asks through that task, whatever the eras.
"""

from collections.abc import Awaitable, Callable, Container, Mapping
from typing import Any, cast

from mcp_types import METHOD_NOT_FOUND, URL_ELICITATION_REQUIRED

from pegboard.errors import ProtocolError
from pegboard.gateway.calls.call_notifier import CallNotifier
from pegboard.gateway.calls.suspended_calls import SuspendedCall, SuspendedCalls
from pegboard.gateway.eras import LOG_LEVEL, RESERVED
from pegboard.gateway.request import (
    TRACE_LIMITS,
    CallTask,
    Client,
    ClientRequest,
    RpcError,
    object_in,
)
from pegboard.gateway.sessions import Sessions
from pegboard.upstream import (
    CallContext,
    Question,
    QuestionRefusedError,
    Questions,
    UpstreamServer,
    context_of_call,
)
from pegboard.upstream.connection import Negotiated
from pegboard.upstream.messages.extensions import declares
from pegboard.upstream.messages.protocol import TASKS

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
    """Runs calls to servers for clients of either era."""

    def __init__(self, suspended_calls: SuspendedCalls, sessions: Sessions) -> None:
        self._suspended_calls = suspended_calls
        self._sessions = sessions

    async def run(
        self, request: ClientRequest, server: UpstreamServer | None, work: Work
    ) -> dict[str, Any]:
        """Run work that calls a server, and return its raw result, or a question as the result.

        Raises:
            RpcError: when the parked call to resume does not exist any more.
        """
        if server is None:
            return await work()
        if request.task is not None:
            with _Carried(_of_task(request, request.task)):
                return await work()
        if request.client.era == "legacy":
            return await self._pushed(request, server.config.name, work)
        negotiated = server.connection.negotiated
        is_modern = negotiated is not None and negotiated.era == "modern"
        can, state = request.client.capabilities, request.params.get("requestState")
        is_parked = state is not None or not _KINDS.keys().isdisjoint(can)
        if is_parked and negotiated is not None and is_modern:
            is_parked = "extensions" in negotiated.capabilities and self._asks(request, negotiated)
        if not is_parked:
            meta = object_in(request.params.get("_meta"))
            is_told = "progressToken" in meta or LOG_LEVEL in meta
            notifier = CallNotifier(request) if is_told else None
            questions = None
            if server.answering is not None:
                # The handlers of the application do not answer for this client.
                questions = _NEVER_ASKED if is_modern else _CANNOT_BE_ASKED
            with _Carried(_passing(request, notifier, questions)):
                result = await work()
            if notifier is not None:
                await notifier.finish()
            return result

        async def parked(call: SuspendedCall) -> dict[str, Any]:
            with _Carried(_passing(request, call.notifier, _questions(call.ask, can))):
                result = await work()
            await call.notifier.finish()
            return result

        return await self._suspended_calls.run(request, parked)

    def _asks(self, request: ClientRequest, negotiated: Negotiated) -> bool:
        """Tell whether a server of the modern era may ask in the middle of the call, or has.

        It asks by results, unless it has made a task of the call.
        """
        if request.params.get("requestState") is not None:
            return self._suspended_calls.made(request)
        return request.method == "tools/call" and declares(negotiated.capabilities, TASKS)

    async def _pushed(self, request: ClientRequest, server: str, work: Work) -> dict[str, Any]:
        session = self._sessions.find(request.client)

        def note_page(question: object) -> None:
            if session is not None and session.listener is not None:
                session.listener.sent_to_page(server, question)

        notifier = CallNotifier(request, level=None if session is None else session.level)
        try:
            with _Carried(_pushing(request, notifier, note_page)):
                result = await work()
            await notifier.finish()
        except ProtocolError as error:
            pages: object = object_in(error.data).get("elicitations")
            if error.rpc_code == URL_ELICITATION_REQUIRED and isinstance(pages, list):
                for page in cast("list[object]", pages):
                    note_page(object_in(page).get("elicitationId"))
            raise
        return result


class _Carried:
    """Lets the requests to servers within the block carry a context."""

    def __init__(self, context: CallContext) -> None:
        self._context = context

    def __enter__(self) -> None:
        self._token = context_of_call.set(self._context)

    def __exit__(self, *_: object) -> None:
        context_of_call.reset(self._token)


def client_key(client: Client) -> str:
    """Return the key of a client: its tenant, its subject and its session."""
    principal = client.principal
    return "\0".join((principal.tenant, principal.subject, client.session))


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
        is_reachable=lambda: request.channel.can_ask,
        meta=_own_meta(request),
        capabilities=request.client.capabilities,
        client=client_key(request.client),
        caller=request.client.principal.subject,
    )


def _passing(
    request: ClientRequest, notifier: CallNotifier | None, questions: Questions | None
) -> CallContext:
    params = request.params
    level = None if notifier is None else notifier.log_level
    return CallContext(
        on_progress=notifier.progress if notifier and notifier.wants_progress else None,
        on_log=notifier.log if notifier and level is not None else None,
        on_logs_lost=notifier.lost if notifier else None,
        log_level=level,
        questions=questions,
        passes_questions_on=True,
        params={key: params[key] for key in ("inputResponses", "requestState") if key in params},
        meta=_own_meta(request),
        capabilities=request.client.capabilities,
        client=client_key(request.client),
        caller=request.client.principal.subject,
    )


def _of_task(request: ClientRequest, task: CallTask) -> CallContext:
    client, params = request.client, request.params
    return CallContext(
        on_progress=task.progress,
        on_log=task.log,
        questions=_questions(task.ask, client.capabilities),
        # A question before the call became a task is a result that the client can act on.
        passes_questions_on=client.era == "modern",
        params={key: params[key] for key in ("inputResponses", "requestState") if key in params},
        meta=_own_meta(request),
        capabilities=client.capabilities,
        client=client_key(client),
        caller=client.principal.subject,
        task=task,
    )


def _own_meta(request: ClientRequest) -> dict[str, Any]:
    """Return the ``_meta`` of a client for the server, without the keys of the protocol.

    A trace that is too long is dropped, too: many servers would write it to their log as it is.
    """
    return {
        key: value
        for key, value in object_in(request.params.get("_meta")).items()
        if key != "progressToken"
        and not key.startswith(RESERVED)
        and (
            key not in TRACE_LIMITS or (isinstance(value, str) and len(value) <= TRACE_LIMITS[key])
        )
    }


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
