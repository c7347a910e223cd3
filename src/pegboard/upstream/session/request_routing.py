"""Route elicitation, sampling and roots requests of a server to the client of the call."""

import logging
from collections.abc import Mapping
from typing import Any, cast

import mcp_types as types
from mcp.client import ClientRequestContext
from pydantic import BaseModel, TypeAdapter, ValidationError

from pegboard.config import ServerConfig
from pegboard.errors import ProtocolError
from pegboard.upstream.messages.jsonrpc import plain_json
from pegboard.upstream.server_requests import (
    Question,
    QuestionKind,
    QuestionRefusedError,
    Questions,
    ask,
)
from pegboard.upstream.session.in_flight import CallInFlight, CallsInFlight, UnclaimedRequestError

__all__ = ["RequestRouting"]

logger: logging.Logger = logging.getLogger("pegboard.upstream")

_KINDS: dict[str, QuestionKind] = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}
_ANSWERS: dict[QuestionKind, TypeAdapter[Any]] = {
    "elicitation": TypeAdapter(types.ElicitResult),
    "sampling": TypeAdapter(types.CreateMessageResult | types.CreateMessageResultWithTools),
    "roots": TypeAdapter(types.ListRootsResult),
}
_NAMES: dict[QuestionKind, str] = {
    "elicitation": "ElicitResult",
    "sampling": "CreateMessageResult",
    "roots": "ListRootsResult",
}
_SHAPES: dict[QuestionKind, str] = {
    "elicitation": 'Return {"action": "accept", "content": {...}}, or None to decline.',
    "sampling": 'Return {"role": "assistant", "model": "...", "content": '
    '{"type": "text", "text": "..."}}, or None to refuse.',
    "roots": 'Return {"roots": [{"uri": "file:///..."}]}, or None to refuse.',
}
"""The form of each result, for the log message about an invalid one."""
_WHOSE = (
    "Calls of several clients are running, and this request may be of any of them: give the "
    'server `"sharing": "per_client"` in its entry'
)


class RequestRouting:
    """Chooses the handler for the requests of one server: the client of the call, or the hub."""

    def __init__(self, config: ServerConfig, questions: Questions, calls: CallsInFlight) -> None:
        self._server = config.name
        self._questions = questions
        self.calls: CallsInFlight = calls
        self._has_warned = False

    def callback(self, kind: QuestionKind) -> Any:
        """Return the SDK callback for a kind of request; ``None`` if it is not allowed."""
        if kind not in self._questions.of_calls and self._questions.of_kind(kind) is None:
            return None

        async def answer(_: ClientRequestContext, params: BaseModel | None = None) -> object:
            asked = _dumped(params) if params is not None else {}
            if self.calls.owners() is None and not self._has_warned:
                self._has_warned = True
                context = {"server": self._server, "reason": _WHOSE}
                logger.warning("question_waits: server %r: %s", self._server, _WHOSE, extra=context)
            try:
                call = await self.calls.asking_call()
            except UnclaimedRequestError:
                return _refusal(_WHOSE)
            return await self._answer(kind, asked, call)

        return answer

    async def answers(self, asked: Mapping[str, Any], call: CallInFlight) -> dict[str, Any]:
        """Return the responses to the input requests of a result.

        Raises:
            ProtocolError: when one of them gets no response.
        """
        answers: dict[str, Any] = {}
        for key, question in asked.items():
            kind = _kind_of(question)
            if kind is None:
                raise self._unanswered("its method is unknown")
            params: object = question.get("params") or {}
            if not isinstance(params, Mapping):
                raise self._unanswered("its parameters are not an object")
            answer = await self._answer(kind, cast("Mapping[str, Any]", params), call)
            if isinstance(answer, types.ErrorData):
                raise self._unanswered(answer.message, answer.code)
            answers[key] = _dumped(answer)
        return answers

    def capabilities(self, call: CallInFlight) -> Mapping[str, Any]:
        """Return the client capabilities that a modern server is told for a call."""
        context = call.context
        if context.capabilities is not None:
            return context.capabilities
        questions = context.questions or self._questions
        forms: dict[str, Any] = {"form": {}, "url": {}}
        offered: dict[str, Any] = {}
        if questions.elicitation is not None:
            offered["elicitation"] = forms
        if questions.sampling is not None:
            offered["sampling"] = {}
        if questions.roots is not None:
            offered["roots"] = {}
        return offered

    async def _answer(
        self, kind: QuestionKind, asked: Mapping[str, Any], call: CallInFlight | None
    ) -> BaseModel:
        brought = None if call is None else call.context.questions
        question = (brought or self._questions).of_kind(kind)
        if question is not None:
            return await _answer_to(question, kind, self._server, asked)
        if kind == "elicitation" and (brought is not None or kind in self._questions.of_calls):
            return types.ElicitResult(action="cancel")
        return _refusal("No client is there to respond")

    def _unanswered(self, reason: str, code: int | None = None) -> ProtocolError:
        return ProtocolError(
            f"Server {self._server!r} sent a request that got no response: {reason}.",
            server=self._server,
            rpc_code=code,
        )


def _kind_of(question: object) -> QuestionKind | None:
    if not isinstance(question, Mapping):
        return None
    method: object = cast("Mapping[str, object]", question).get("method")
    return _KINDS.get(method) if isinstance(method, str) else None


async def _answer_to(
    question: Question, kind: QuestionKind, server: str, asked: Mapping[str, Any]
) -> BaseModel:
    # The details are for the log, and not for the server: they may contain anything.
    context = {"server": server}
    try:
        answer = await ask(question, server, asked)
    except QuestionRefusedError as error:
        refusal = types.ErrorData(code=error.code, message=error.message, data=error.data)
        return refusal if _is_writable(refusal) else _refusal("Declined")
    except Exception:
        logger.exception("question_failed: server %r", server, extra=context)
        return types.ErrorData(code=types.INTERNAL_ERROR, message="The request failed")
    if answer is None:
        if kind == "elicitation":
            return types.ElicitResult(action="decline")
        return _refusal("Declined")
    try:
        return _ANSWERS[kind].validate_python(plain_json(answer))
    except (ValueError, RecursionError) as error:
        wrong = _problems(error)
        logger.error(  # noqa: TRY400 - the trace leads nowhere
            "bad_answer: what was returned to server %r is not a valid %s (%s). %s",
            *(server, _NAMES[kind], wrong, _SHAPES[kind]),
            extra=context,
        )
        message = f"The response is not a valid {_NAMES[kind]}; the log of the client says more"
        return types.ErrorData(code=types.INTERNAL_ERROR, message=message)


def _refusal(words: str) -> types.ErrorData:
    return types.ErrorData(code=types.INVALID_REQUEST, message=words)


def _dumped(value: BaseModel) -> dict[str, Any]:
    return value.model_dump(by_alias=True, mode="json", exclude_none=True)


def _problems(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return "it cannot be written as JSON"
    return "; ".join(f"{'.'.join(map(str, it['loc']))}: {it['msg']}" for it in error.errors())


def _is_writable(value: BaseModel) -> bool:
    try:
        plain_json(value)
    except (ValueError, RecursionError):
        return False
    return True
