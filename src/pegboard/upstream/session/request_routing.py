"""Route elicitation, sampling and roots requests of a server to the client of the call."""

import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Literal, cast

import msgspec

from pegboard.config import ServerConfig
from pegboard.errors import ProtocolError
from pegboard.model.hidden_characters import visible_json
from pegboard.upstream.messages.extensions import (
    PLAIN_CAPABILITIES,
    SKILLS,
    told_capabilities,
    without,
)
from pegboard.upstream.messages.jsonrpc import ServerRpcError, plain_json
from pegboard.upstream.messages.protocol import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    TASKS,
)
from pegboard.upstream.server_requests import (
    Question,
    QuestionKind,
    QuestionRefusedError,
    Questions,
    ask,
)
from pegboard.upstream.session.in_flight import CallInFlight, CallsInFlight, UnclaimedRequestError

__all__ = ["KINDS", "LARGEST_QUESTION", "RequestRouting"]

logger: logging.Logger = logging.getLogger("pegboard.upstream")

KINDS: dict[str, QuestionKind] = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}
"""The kinds of requests that a server may send, by their methods."""
_METHODS: dict[QuestionKind, str] = {kind: method for method, kind in KINDS.items()}


class _ElicitResult(msgspec.Struct):
    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] | None = None


class _Block(msgspec.Struct):
    type: str


class _CreateMessageResult(msgspec.Struct):
    role: Literal["user", "assistant"]
    content: _Block | list[_Block]
    model: str


class _Root(msgspec.Struct):
    uri: str


class _ListRootsResult(msgspec.Struct):
    roots: list[_Root]


_SHAPES: dict[QuestionKind, tuple[str, type, str]] = {
    "elicitation": (
        "ElicitResult",
        _ElicitResult,
        'Return {"action": "accept", "content": {...}}, or None to decline.',
    ),
    "sampling": (
        "CreateMessageResult",
        _CreateMessageResult,
        'Return {"role": "assistant", "model": "...", "content": '
        '{"type": "text", "text": "..."}}, or None to refuse.',
    ),
    "roots": (
        "ListRootsResult",
        _ListRootsResult,
        'Return {"roots": [{"uri": "file:///..."}]}, or None to refuse.',
    ),
}
"""The name and the form of each result, and what the log says about an invalid one."""
_WORDS = ("message", "systemPrompt", "url")
_LABELS = frozenset({"title", "description", "enumNames"})
"""The words of a question, and of the schema of a form."""
LARGEST_QUESTION = 65_536
"""Bytes that the words and forms of the questions of one message may have."""
_TOO_LARGE = f"its words and its form have more than {LARGEST_QUESTION} bytes"
_encode = msgspec.json.Encoder().encode
_WHOSE = (
    "Calls of several clients are running, and this request may be of any of them: give the "
    'server `"sharing": "per_client"` in its entry'
)


class RequestRouting:
    """Chooses the handler for the requests of one server: the client of the call, or the hub."""

    def __init__(self, config: ServerConfig, questions: Questions, calls: CallsInFlight) -> None:
        self._server = config.name
        self._offers_tasks = config.tasks == "always"
        self._questions = questions
        self.calls: CallsInFlight = calls
        self._has_warned = False
        # A gateway carries skills, whatever each of its clients declares.
        skills = {SKILLS: dict[str, Any]()} if questions.of_calls else {}
        announced = {**questions.extensions, **skills}
        extensions = {"extensions": announced} if announced else {}
        self.client_capabilities: Mapping[str, Any] = extensions | _capabilities_of(
            {kind for kind in KINDS.values() if self._allows(kind)}, roots={"listChanged": True}
        )
        """What the server is told of its client when the session begins."""
        self.modern_capabilities: Mapping[str, Any] = told_capabilities(self.client_capabilities)
        """The same, as a server of the modern era is told it."""
        self._own_capabilities = told_capabilities(_capabilities_of(_answered_by(questions)))

    async def respond(
        self, method: str, asked: Mapping[str, Any], came_with: CallInFlight | None
    ) -> Mapping[str, Any]:
        """Return the result of a request of the server.

        Raises:
            ServerRpcError: when the request is refused, or cannot be answered.
        """
        kind = KINDS[method]
        if not self._allows(kind):
            raise ServerRpcError(INVALID_REQUEST, f"{kind.capitalize()} not supported")
        if self.calls.owners(came_with) is None and not self._has_warned:
            self._has_warned = True
            context = {"server": self._server, "reason": _WHOSE}
            logger.warning("question_waits: server %r: %s", self._server, _WHOSE, extra=context)
        try:
            call = await self.calls.asking_call(came_with)
        except UnclaimedRequestError:
            raise ServerRpcError(INVALID_REQUEST, _WHOSE) from None
        return await self._answer(kind, asked, call)

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
            try:
                answers[key] = await self._answer(kind, cast("Mapping[str, Any]", params), call)
            except ServerRpcError as error:
                raise self._unanswered(error.message, error.code) from None
        return answers

    def capabilities(self, call: CallInFlight, method: str) -> Mapping[str, Any]:
        """Return the client capabilities that a modern server is told for a request of a call."""
        context = call.context
        if context.capabilities is not None:
            said = context.capabilities
            told = told_capabilities(said) if said else PLAIN_CAPABILITIES
        elif context.questions is None:
            told = self._own_capabilities
        else:
            told = told_capabilities(_capabilities_of(_answered_by(context.questions)))
        if self._offers_tasks or method != "tools/call" or context.task is not None:
            return told
        return without(told, TASKS)

    def shown(self, raw: dict[str, Any]) -> dict[str, Any]:
        """Return a result with questions for a client, as a person may see them.

        Raises:
            ProtocolError: when one of them is of a kind that Pegboard does not carry.
        """
        asked: object = raw.get("inputRequests")
        if not isinstance(asked, dict) or not asked:
            return raw
        questions = cast("dict[str, Any]", asked)
        if any(_kind_of(it) is None for it in questions.values()):
            raise self._unanswered("its method is unknown")
        if sum(_size(it.get("params")) for it in questions.values()) > LARGEST_QUESTION:
            raise self._unanswered(_TOO_LARGE)
        shown = {key: {**it, "params": _shown(it.get("params"))} for key, it in questions.items()}
        return raw if shown == questions else {**raw, "inputRequests": shown}

    def _allows(self, kind: QuestionKind) -> bool:
        return kind in self._questions.of_calls or self._questions.of_kind(kind) is not None

    async def _answer(
        self, kind: QuestionKind, asked: Mapping[str, Any], call: CallInFlight | None
    ) -> Mapping[str, Any]:
        if _size(asked) > LARGEST_QUESTION:
            raise ServerRpcError(INVALID_REQUEST, _TOO_LARGE)
        asked = _shown(asked)
        brought = None if call is None else call.context.questions
        question = (brought or self._questions).of_kind(kind)
        if question is not None:
            return await _answer_to(question, kind, self._server, asked)
        can = None if call is None or brought is not None else call.context.capabilities
        if can is not None and kind not in can:
            raise ServerRpcError(METHOD_NOT_FOUND, f"The client does not support {_METHODS[kind]}.")
        if kind == "elicitation" and (brought is not None or kind in self._questions.of_calls):
            return {"action": "cancel"}
        raise ServerRpcError(INVALID_REQUEST, "No client is there to respond")

    def _unanswered(self, reason: str, code: int | None = None) -> ProtocolError:
        return ProtocolError(
            f"Server {self._server!r} sent a request that got no response: {reason}.",
            server=self._server,
            rpc_code=code,
        )


def _capabilities_of(
    kinds: set[QuestionKind], roots: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    forms: dict[QuestionKind, Mapping[str, Any]] = {
        "elicitation": {"form": {}, "url": {}},
        "sampling": {},
        "roots": roots or {},
    }
    return {kind: forms[kind] for kind in KINDS.values() if kind in kinds}


def _answered_by(questions: Questions) -> set[QuestionKind]:
    return {kind for kind in KINDS.values() if questions.of_kind(kind) is not None}


def _shown(params: Any) -> Any:
    """Return a question whose words hide nothing; what a client sends back stays as it is."""
    if not isinstance(params, Mapping):
        return params
    asked = cast("Mapping[str, Any]", params)
    words = {key: visible_json(asked[key]) for key in _WORDS if key in asked}
    form: object = asked.get("requestedSchema")
    if isinstance(form, Mapping):
        words["requestedSchema"] = _shown_form(cast("Mapping[str, Any]", form))
    return asked if all(asked[key] is it for key, it in words.items()) else {**asked, **words}


def _size(params: Any) -> int:
    """Return how many bytes `_shown` looks through."""
    if not isinstance(params, Mapping):
        return 0
    asked = cast("Mapping[str, Any]", params)
    # A server of this process may have values that are not JSON.
    with suppress(TypeError, ValueError, RecursionError):
        return sum(len(_encode(asked[it])) for it in (*_WORDS, "requestedSchema") if it in asked)
    return 0


def _shown_form(schema: Any) -> Any:
    """Return a form with its titles and descriptions visible: names and choices are data."""
    if isinstance(schema, Mapping):
        given = cast("Mapping[str, Any]", schema)
        shown: dict[str, Any] = {}
        for key, value in given.items():
            is_text = key in _LABELS and isinstance(value, str | list)
            shown[key] = visible_json(value) if is_text else _shown_form(value)
        return given if all(given[key] is it for key, it in shown.items()) else shown
    if isinstance(schema, list):
        items = cast("list[Any]", schema)
        parts = [_shown_form(it) for it in items]
        return items if all(a is b for a, b in zip(items, parts, strict=True)) else parts
    return schema


def _kind_of(question: object) -> QuestionKind | None:
    if not isinstance(question, Mapping):
        return None
    method: object = cast("Mapping[str, object]", question).get("method")
    return KINDS.get(method) if isinstance(method, str) else None


async def _answer_to(
    question: Question, kind: QuestionKind, server: str, asked: Mapping[str, Any]
) -> Mapping[str, Any]:
    # The details are for the log, and not for the server: they may contain anything.
    context = {"server": server}
    name, form, hint = _SHAPES[kind]
    try:
        answer = await ask(question, server, asked)
    except QuestionRefusedError as error:
        try:
            plain_json([error.message, error.data])
        except (ValueError, RecursionError):
            raise ServerRpcError(INVALID_REQUEST, "Declined") from None
        raise ServerRpcError(error.code, error.message, error.data) from None
    except Exception as error:
        logger.exception("question_failed: server %r", server, extra=context)
        raise ServerRpcError(INTERNAL_ERROR, "The request failed") from error
    if answer is None:
        if kind == "elicitation":
            return {"action": "decline"}
        raise ServerRpcError(INVALID_REQUEST, "Declined")
    try:
        plain = plain_json(answer)
        msgspec.convert(plain, form)
    except (ValueError, RecursionError) as error:
        is_form = isinstance(error, msgspec.ValidationError)
        wrong = str(error) if is_form else "it cannot be written as JSON"
        logger.error(  # noqa: TRY400 - the trace leads nowhere
            "bad_answer: what was returned to server %r is not a valid %s (%s). %s",
            *(server, name, wrong, hint),
            extra=context,
        )
        message = f"The response is not a valid {name}; the log of the client says more"
        raise ServerRpcError(INTERNAL_ERROR, message) from None
    return _without_nothing(plain)


def _without_nothing(answer: dict[str, Any]) -> dict[str, Any]:
    """Return an answer without fields that are null: the protocol has them absent."""
    return {key: value for key, value in answer.items() if value is not None}
