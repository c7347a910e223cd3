"""Tasks of one handshake session: which call the progress, logs and questions of a task are of."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from pegboard.model.json_values import object_in
from pegboard.upstream.call_context import CallContext
from pegboard.upstream.messages.protocol import RELATED_TASK
from pegboard.upstream.session.in_flight import CallInFlight, CallsInFlight

__all__ = ["UNKNOWN_TASK", "SessionTasks", "related_task"]

UNKNOWN_TASK: Final = CallInFlight(CallContext(), None)
"""Stands for the call of a task that this session does not know."""


def related_task(params: Mapping[str, Any]) -> str | None:
    """Return the id of the task that a message belongs to; ``None`` if it names none."""
    meta = object_in(params.get("_meta"))
    if RELATED_TASK not in meta:
        return None
    found: object = object_in(meta[RELATED_TASK]).get("taskId")
    return found if isinstance(found, str) else ""


class SessionTasks:
    """Keeps the call of a task in flight for as long as the task is followed.

    Servers of the handshake era send questions, logs and progress of a task while no request of
    its call is under way. As one of the calls in flight, the call gets them, and no other does.
    """

    def __init__(self, calls: CallsInFlight) -> None:
        self._calls = calls
        self._kept: dict[str, CallInFlight] = {}
        self._on_status: dict[str, Callable[[], object]] = {}
        self._with_progress: dict[object, str] = {}
        """The ids of the tasks by their progress tokens."""

    def began(self, raw: Mapping[str, Any], call: CallInFlight) -> None:
        """Keep a call whose result is a task."""
        task_id: object = object_in(raw.get("task")).get("taskId")
        # A task that another call has is refused to both, see `tasks/`.
        if not isinstance(task_id, str) or task_id in self._kept:
            return
        self._keep(task_id, call.context)
        if call.context.on_progress is not None and call.number is not None:
            self._with_progress[call.number] = task_id

    def follow(
        self, task_id: str, context: CallContext, on_status: Callable[[], object]
    ) -> CallInFlight:
        """Keep the call of a task, with the context that its messages have from now on."""
        kept = self._kept.get(task_id)
        if kept is None:
            kept = self._keep(task_id, context)
        kept.context = context
        self._on_status[task_id] = on_status
        return kept

    def forget(self, task_id: str, *, is_over: bool) -> None:
        """Let go of the call of a task."""
        self._on_status.pop(task_id, None)
        for token, its_task in list(self._with_progress.items()):
            if its_task == task_id:
                del self._with_progress[token]
        kept = self._kept.pop(task_id, None)
        if kept is not None:
            self._calls.discard(kept, answered=is_over, given_up=not is_over)

    def call_of(self, task_id: str) -> CallInFlight:
        """Return the call of a task, or `UNKNOWN_TASK`."""
        return self._kept.get(task_id, UNKNOWN_TASK)

    def call_with_progress(self, token: object) -> CallInFlight | None:
        """Return the call whose task has this progress token; ``None`` if there is none."""
        task_id = self._with_progress.get(token)
        return None if task_id is None else self._kept.get(task_id)

    def note_status(self, params: Mapping[str, Any]) -> None:
        """Take the notification that the status of a task has changed."""
        task_id: object = params.get("taskId")
        tell = self._on_status.get(task_id) if isinstance(task_id, str) else None
        if tell is not None:
            tell()

    def _keep(self, task_id: str, context: CallContext) -> CallInFlight:
        kept = self._kept[task_id] = CallInFlight(context, self._calls)
        self._calls.add(kept)
        return kept
