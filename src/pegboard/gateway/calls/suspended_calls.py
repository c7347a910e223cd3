"""SuspendedCalls: parked calls that wait for an elicitation answer in a later request.

A server of the handshake era asks in the middle of a call. A client of the modern era cannot be
asked then: it gets the question as its result, and repeats the call with the answer. Meanwhile the
gateway keeps the call parked.
"""

import hashlib
import hmac
import json
import secrets
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from time import monotonic, time
from typing import Any, Literal, cast

import anyio
import msgspec
from anyio.abc import TaskGroup
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS

from pegboard.errors import LimitReachedError
from pegboard.gateway.calls.call_notifier import CallNotifier
from pegboard.gateway.request import ClientRequest, RpcError
from pegboard.policies.fair_share import FairShare

__all__ = ["OpenQuestion", "SuspendedCall", "SuspendedCalls"]

_MARK = "pb1."
_SOON = 30.0
"""Seconds after which to try again when too many calls are parked: people answer that fast."""
Work = Callable[["SuspendedCall"], Awaitable[dict[str, Any]]]
"""Runs the call; its questions go to the given `SuspendedCall`."""


class OpenQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A question that a parked call or a task waits for, and that a person may answer."""

    kind: Literal["call", "task"]
    id: str
    """The id of the parked call, or of the task."""
    key: str
    """The key of the question in the call."""
    method: str
    params: Mapping[str, Any]
    """As the server wrote them."""
    tool: str
    tenant: str
    subject: str
    """Whose call it is."""
    until: float | None = None
    """When it is given up, in seconds since the epoch; ``None`` if that is not known."""


class SuspendedCall:
    """One call that runs in its own task, and the questions that it waits for."""

    def __init__(self, request: ClientRequest, *, patience: float) -> None:
        self.id: str = secrets.token_urlsafe(16)
        self._request = request
        self.owner: tuple[str, str] = _owner(request)
        name: object = request.params.get("name")
        self.tool: str = name if isinstance(name, str) else request.method
        """What is called, as the client named it."""
        self.notifier: CallNotifier = CallNotifier(request)
        self.round: int = 0
        self.has_place: bool = False
        """True from its first question to its end: then no later question is refused."""
        self.waiting_until: float | None = None
        """Until when its client may answer; ``None`` while a request waits for the call."""
        self.scope: anyio.CancelScope = anyio.CancelScope()
        self.asked: dict[str, dict[str, Any]] = {}
        """The open questions, as MCP requests."""
        self.result: dict[str, Any] | None = None
        self.error: Exception | None = None
        self._answers: dict[str, Mapping[str, Any]] = {}
        self._answered: dict[str, anyio.Event] = {}
        self._count = 0
        self._patience = patience
        self.updated: anyio.Event = anyio.Event()
        """Set when there is a result, or a question."""

    @cached_property
    def binding(self) -> bytes:
        """What its states are bound to; most calls never ask, and large arguments take long."""
        return _binding(self._request)

    @property
    def is_over(self) -> bool:
        """True when it has a result, failed, or was cancelled."""
        return self.result is not None or self.error is not None or self.scope.cancel_called

    async def ask(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Ask the client, and wait for its answer; cancel the call when that takes too long."""
        self._count += 1
        key = f"question-{self._count}"
        self.asked[key] = {"method": method, "params": dict(params)}
        answered = self._answered[key] = anyio.Event()
        self.updated.set()
        with anyio.move_on_after(self._patience):
            await answered.wait()
            return self._answers.pop(key)
        self.scope.cancel()
        return None

    def take(self, responses: Mapping[str, Any]) -> None:
        """Pass the answers of a repeated request to the call."""
        for key in [key for key in self.asked if isinstance(responses.get(key), Mapping)]:
            del self.asked[key]
            self._answers[key] = responses[key]
            self._answered.pop(key).set()
        if not self.asked and not self.is_over:
            self.updated = anyio.Event()

    async def run(self, work: Work) -> None:
        """Run the call to its end, even if no request waits for it."""
        try:
            with self.scope:
                self.result = await work(self)
        except Exception as error:  # noqa: BLE001 - raised again by the request that waits
            self.error = error
        finally:
            self.updated.set()


class SuspendedCalls:
    """All parked calls of a gateway.

    None of them is dropped for another. A new one is refused if its caller has too many, so that
    there is room for the calls of others.

    Args:
        group: runs the tasks of the calls.
        seconds: how long a client may take to answer.
        most: how many calls may be parked at once.
        each: how many calls of one caller may be parked.
    """

    def __init__(self, group: TaskGroup, *, seconds: float, most: int, each: int) -> None:
        self._group = group
        self._seconds = seconds
        self.shares: FairShare = FairShare("parked calls", most, setting="gateway.parked_calls")
        """The calls that have asked at least once, by tenant and subject."""
        self._each = each
        self._key = secrets.token_bytes(32)
        self._calls: dict[str, SuspendedCall] = {}

    def __len__(self) -> int:
        return len(self._calls)

    async def run(self, request: ClientRequest, work: Work) -> dict[str, Any]:
        """Run a call until it ends or asks; a question is the result, with the state to resume.

        Raises:
            RpcError: when the caller has no such parked call to resume.
            LimitReachedError: when the call asks, and too many of its caller are parked.
        """
        self._sweep()
        call = self._resumed(request) or self._started(request, work)
        try:
            await call.updated.wait()
            if not call.is_over:
                return self._park(call)
        except BaseException:
            call.scope.cancel()
            raise
        if call.error is not None:
            raise call.error
        if call.result is None:
            raise RpcError(INTERNAL_ERROR, "The call was cancelled before it ended.")
        return call.result

    def made(self, request: ClientRequest) -> bool:
        """Tell whether the state of a request was made here for this call, perhaps long ago."""
        state: object = request.params.get("requestState")
        if not isinstance(state, str):
            return False
        signed = state.rpartition(".")[0]
        return hmac.compare_digest(_bytes(state), _bytes(self._signed(signed, _binding(request))))

    def count(self, request: ClientRequest) -> int:
        """Return how many calls of a caller are parked, without the one that it now resumes."""
        if not self._calls:
            return 0
        self._sweep()
        owner = _owner(request)
        theirs = sum(1 for call in self._calls.values() if call.owner == owner)
        return theirs - (theirs > 0 and self._found(request) is not None)

    def questions(self) -> list[OpenQuestion]:
        """Return the questions of the parked calls, the oldest first."""
        self._sweep()
        ends = time() - monotonic()
        return [
            OpenQuestion(
                kind="call",
                id=call.id,
                key=key,
                method=asked["method"],
                params=asked["params"],
                tool=call.tool,
                tenant=call.owner[0],
                subject=call.owner[1],
                until=None if call.waiting_until is None else ends + call.waiting_until,
            )
            for call in self._calls.values()
            for key, asked in call.asked.items()
        ]

    def answer(self, question: OpenQuestion, response: Mapping[str, Any]) -> bool:
        """Answer a question in place of the client, which gets the result when it asks again.

        Returns:
            whether the question was still open.
        """
        self._sweep()
        call = self._calls.get(question.id)
        if call is None or question.key not in call.asked:
            return False
        call.take({question.key: response})
        return True

    def waits_in(self, tenant: str) -> bool:
        """Tell whether calls of a tenant are parked."""
        self._sweep()
        return any(call.owner[0] == tenant for call in self._calls.values())

    def _started(self, request: ClientRequest, work: Work) -> SuspendedCall:
        call = SuspendedCall(request, patience=self._seconds)
        self._group.start_soon(self._run, call, work)
        return call

    async def _run(self, call: SuspendedCall, work: Work) -> None:
        try:
            await call.run(work)
        finally:
            if call.has_place:
                self.shares.remove(call.owner)

    def _resumed(self, request: ClientRequest) -> SuspendedCall | None:
        if request.params.get("requestState") is None:
            return None
        call = self._found(request)
        if call is None:
            # Not started again: that could do its work twice, because the client believes that half
            # of it is done.
            # All cases get the same error, so that it does not reveal which calls exist.
            raise RpcError(
                INVALID_PARAMS,
                "Invalid or expired requestState: make the call again without it.",
                {"reason": "invalid_request_state"},
            )
        del self._calls[call.id]
        call.waiting_until = None
        call.notifier.request = request
        responses: object = request.params.get("inputResponses")
        if isinstance(responses, Mapping):
            call.take(cast("Mapping[str, Any]", responses))
        return call

    def _found(self, request: ClientRequest) -> SuspendedCall | None:
        """Return the call that a request may resume: the caller's own, with its last state."""
        state: object = request.params.get("requestState")
        if not isinstance(state, str):
            return None
        call = self._calls.get(state.removeprefix(_MARK).partition(".")[0])
        if call is None or call.binding != _binding(request):
            return None
        is_last = hmac.compare_digest(_bytes(state), _bytes(self._state(call)))
        return call if is_last else None

    def _park(self, call: SuspendedCall) -> dict[str, Any]:
        if not call.has_place:
            self._check_share(call)
            call.has_place = True
            self.shares.add(call.owner)
        call.round += 1
        call.notifier.request = None
        call.waiting_until = monotonic() + self._seconds
        self._calls[call.id] = call
        return {
            "resultType": "input_required",
            "inputRequests": dict(call.asked),
            "requestState": self._state(call),
        }

    def _check_share(self, call: SuspendedCall) -> None:
        has_all = self.shares.held(call.owner) >= self._each
        if not has_all and self.shares.admits(call.owner):
            return
        setting = "gateway.parked_each" if has_all else self.shares.setting
        words = (
            "The tool asked a question, and too many of your calls wait for answers already "
            f"(`{setting}`). The call was cancelled. Answer those, or try again later."
        )
        raise LimitReachedError(words, setting=setting, retry_after=_SOON)

    def _state(self, call: SuspendedCall) -> str:
        return self._signed(f"{_MARK}{call.id}.{call.round}", call.binding)

    def _signed(self, text: str, binding: bytes) -> str:
        message = _bytes(text) + binding
        return f"{text}.{hmac.new(self._key, message, hashlib.sha256).hexdigest()}"

    def _sweep(self) -> None:
        now = monotonic()
        for call in list(self._calls.values()):
            late = call.waiting_until is not None and call.waiting_until <= now
            if late or call.scope.cancel_called:
                call.scope.cancel()
                self._calls.pop(call.id, None)


def _bytes(state: str) -> bytes:
    return state.encode("utf-8", "surrogatepass")


def _owner(request: ClientRequest) -> tuple[str, str]:
    principal = request.client.principal
    return principal.tenant, principal.subject


def _binding(request: ClientRequest) -> bytes:
    """Return what a state is bound to: the caller, the method, the name and the arguments."""
    params = request.params
    target = [request.method, params.get("name"), params.get("uri"), params.get("arguments")]
    try:
        # Not with msgspec, which refuses lone surrogates.
        written = json.dumps([*_owner(request), *target], sort_keys=True)
    except (RecursionError, TypeError, ValueError):
        raise RpcError(INVALID_PARAMS, "The arguments are nested too deeply.") from None
    return hashlib.sha256(written.encode()).digest()
