"""Tasks: makes tasks of calls, runs them apart from their requests, and keeps what becomes of them.

A task is always a call that this gateway runs itself, on the road of every call. The store has its
state, so that clients may ask another gateway for it, and so that it survives a restart.
"""

import logging
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import anyio
import anyio.to_thread
import msgspec
from anyio.abc import TaskGroup
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS

from pegboard.errors import LimitReachedError, PegboardError, RevisionConflictError, StorageError
from pegboard.gateway.builtin_tool import CallerContext
from pegboard.gateway.errors import rpc_error_of
from pegboard.gateway.options import GatewayOptions
from pegboard.gateway.request import Client, ClientRequest, RpcError, object_in
from pegboard.gateway.tasks.quota import TaskQuota
from pegboard.gateway.tasks.recent_tasks import RecentTasks
from pegboard.gateway.tasks.record import (
    TaskFailure,
    TaskRecord,
    is_task_id,
    new_task_id,
    not_found,
    written,
)
from pegboard.gateway.tasks.running_task import Push, RunningTask
from pegboard.gateway.tasks.table import Letter, StoredTask, TaskTable
from pegboard.model import Tool
from pegboard.model.principal import Principal
from pegboard.model.task import TaskStatus
from pegboard.model.tool_names import name_matcher
from pegboard.policies import may_use_server
from pegboard.policies.fair_share import LimitUse

__all__ = ["NewTask", "Tasks", "Work"]

logger: logging.Logger = logging.getLogger("pegboard.gateway")

Work = Callable[[CallerContext], Awaitable[dict[str, Any]]]
"""Runs the call of a request, on the road of every call."""
_MOST_ROUNDS = 20
"""How often a server may answer a call with questions."""
_SOON = 30.0
_SAVING = 5.0
"""Seconds in which the last state of a task is written."""
_CANCELLED = "The call was cancelled."
_UNANSWERED = "The call was cancelled: its question was not answered in time."


class NewTask(msgspec.Struct, frozen=True, kw_only=True):
    """What is to become a task: the call, and how."""

    name: str
    """The name of the tool, as the client knows it."""
    tool: Tool | None
    relays: bool
    hold: AbstractContextManager[object]
    """Keeps the tenant open."""
    work: Work
    ttl: float | None = None
    """For how many seconds the client wants the task to be kept."""
    must: bool = False
    """Whether the client asked for a task, and for nothing else."""
    push: Push | None = None


class Tasks:
    """All tasks of a gateway.

    Args:
        options: the limits, and when a call becomes a task.
        group: runs the calls.
        table: keeps the tasks.
        track: is given the scope of each call that runs, and returns what tells that it ended; so
            that a gateway that stops waits for them, or cancels them.
        now: returns the time, in seconds since 1970.
    """

    def __init__(
        self,
        options: GatewayOptions,
        group: TaskGroup,
        table: TaskTable,
        *,
        track: Callable[[anyio.CancelScope], Callable[[], object]],
        now: Callable[[], float] = time.time,
    ) -> None:
        self.options: GatewayOptions = options
        self.table: TaskTable = table
        self.instance: str = str(uuid.uuid4())
        """What the store calls this gateway."""
        self.live: dict[str, RunningTask] = {}
        """The tasks that this gateway runs, and those that could not be saved at their end."""
        self.quota: TaskQuota = TaskQuota(options, now=now)
        self.on_change: Callable[[TaskRecord, Client | None], object] = lambda _, __: None
        """Is told of every task whose status has changed, and which client began it."""
        self.take_over: Callable[[StoredTask], Awaitable[TaskRecord | None]] = _leave_it
        """Goes on with a task whose gateway is gone; returns what it is now."""
        self.begun: anyio.Event = anyio.Event()
        """Set when a task begins, or is followed."""
        self.followed: Counter[str] = Counter()
        """The tasks that clients listen for here, and how many do."""
        self._group = group
        self._track = track
        self.now: Callable[[], float] = now
        self._after = [
            (name_matcher("task_after_for", [pattern]), seconds)
            for pattern, seconds in options.task_after_for.items()
        ]
        self._recent = RecentTasks()
        self._saving: set[str] = set()
        self._stayed = float("-inf")
        self._staying = anyio.Lock()

    def limits(self) -> list[LimitUse]:
        """Return how much is used up of each limit."""
        return self.quota.limits() if self.options.tasks else []

    def count(self, principal: Principal) -> int:
        """Return how many calls of a caller run as tasks here."""
        if not self.live:
            return 0
        return self.quota.running.held((principal.tenant, principal.subject))

    async def begin(self, caller: CallerContext, new: NewTask) -> RunningTask | dict[str, Any]:
        """Run a call; return its result if it ends soon, and else the task that it became.

        Raises:
            RpcError: when the call failed soon.
            LimitReachedError: when there is no room for a task, and the call needs to be one.
        """
        request = caller.request
        running = self.running(request, self._record(caller, new), push=new.push)
        if new.must:
            self._make_room(running)
        self._group.start_soon(self._run, running, _apart(caller, running), new)
        try:
            patience = 0 if new.must else self._patience_with(new)
            if patience:
                with anyio.move_on_after(patience):
                    await running.noted.wait()
            if not running.is_over and (new.must or self._has_room(running)):
                return await self._created(running)
            await running.over.wait()
        except BaseException:
            running.stop("cancelled")
            raise
        return running.outcome()

    async def find(self, principal: Principal, task: object) -> TaskRecord:
        """Return a task of a caller.

        Raises:
            RpcError: when the caller has no such task, or may not use its tool any more.
        """
        record = await self.seek(task) if is_task_id(task) else None
        if record is None or record.owner != (principal.tenant, principal.subject):
            raise not_found()
        if not may_use_server(principal, "call", record.server, name=record.tool):
            raise not_found()
        return record

    async def seek(self, task: str) -> TaskRecord | None:
        """Return the task of any caller; go on with it if its gateway is gone."""
        running, recent = self.live.get(task), self._recent.record(task)
        if running is not None:
            record = running.state()
        elif recent is not None:
            record = recent
        else:
            stored = await anyio.to_thread.run_sync(self.table.load, task)
            if stored is None:
                return None
            record = stored.record
            if not record.status.is_final and record.runner != self.instance:
                record = await self.take_over(stored) or record
        return None if record.expires <= self.now() else record

    async def result(self, record: TaskRecord) -> dict[str, Any]:
        """Return the result of a task that completed.

        Raises:
            RpcError: when it is gone.
        """
        running = self.live.get(record.id)
        recent = self._recent.result(record.id) if running is None else running.result
        if recent is not None:
            return recent
        text = await anyio.to_thread.run_sync(self.table.result, record.id)
        if text is None:
            raise not_found()
        return msgspec.json.decode(text)

    async def update(self, record: TaskRecord, responses: Mapping[str, Any]) -> None:
        """Pass on answers to the questions of a task."""
        running = self.live.get(record.id)
        if running is not None:
            running.take(responses)
        elif not record.status.is_final:
            letter = Letter(task=record.id, responses=written(dict(responses)))
            await anyio.to_thread.run_sync(self.table.post, letter)

    async def cancel(self, record: TaskRecord) -> None:
        """Stop a task, unless it has ended."""
        running = self.live.get(record.id)
        if running is not None:
            running.stop("cancelled")
            with anyio.move_on_after(_SAVING):
                await running.over.wait()
        elif not record.status.is_final:
            letter = Letter(task=record.id, cancel=True)
            await anyio.to_thread.run_sync(self.table.post, letter)

    async def list_of(self, principal: Principal) -> list[TaskRecord]:
        """Return the tasks of a caller, the newest first."""
        owner, now = (principal.tenant, principal.subject), self.now()
        stored = await anyio.to_thread.run_sync(self.table.load_recent)
        found = {key: it.record for key, it in stored.items()}
        found.update((key, it.state()) for key, it in self.live.items() if it.is_task)
        theirs = [
            it
            for it in found.values()
            if it.owner == owner
            and it.expires > now
            and may_use_server(principal, "call", it.server, name=it.tool)
        ]
        return sorted(theirs, key=lambda it: (it.created, it.id), reverse=True)

    def running(
        self, request: ClientRequest, record: TaskRecord, *, push: Push | None = None
    ) -> RunningTask:
        """Return a call that is not yet begun."""
        seconds, changed = self.options.parked_seconds, self._changed
        return RunningTask(request, record, patience=seconds, on_change=changed, push=push)

    def take_in(self, records: Iterable[TaskRecord]) -> None:
        """Count the tasks of the store, and those of this gateway that are not in it yet."""
        found = {it.id: it for it in records}
        found.update((key, it.state()) for key, it in self.live.items())
        self.quota.take_in(found.values())

    def resume(self, running: RunningTask, caller: CallerContext, new: NewTask) -> None:
        """Go on with a task that another gateway has begun; it counts even beyond the limits."""
        self._begin(running)
        self._group.start_soon(self._run, running, caller, new)

    def let_go(self) -> None:
        """Stop following the tasks of servers, so that the next gateway on the store does."""
        for running in list(self.live.values()) if self.table.is_shared else ():
            if running.record.upstream is not None:
                running.stop("")

    async def delete(self, tasks: Iterable[str]) -> None:
        """Forget tasks."""
        gone = list(tasks)
        if gone:
            self.quota.forget(gone)
            self._recent.forget(gone)
            await anyio.to_thread.run_sync(self.table.delete, gone)

    async def save_late(self) -> None:
        """Save the ends of tasks that could not be saved when they ended."""
        for running in [it for it in self.live.values() if it.record.status.is_final]:
            await self._save_end(running, running.record, running.unsaved)

    def _record(self, caller: CallerContext, new: NewTask) -> TaskRecord:
        client, now = caller.client, self.now()
        most = self.options.task_ttl
        return TaskRecord(
            id=new_task_id(),
            tenant=client.principal.tenant,
            subject=client.principal.subject,
            tool=new.name if new.tool is None else new.tool.name,
            server=None if new.tool is None else new.tool.server,
            created=now,
            updated=now,
            ttl=most if new.ttl is None else min(max(new.ttl, 1.0), most),
            runner=self.instance,
            era=client.era,
            version=client.version,
            capabilities=written(dict(client.capabilities)) if client.capabilities else "",
            relays=new.relays,
        )

    def _patience_with(self, new: NewTask) -> float:
        names = [new.name] if new.tool is None else [new.tool.name, new.tool.server or ""]
        for matches, seconds in self._after:
            if any(map(matches, names)):
                return seconds
        return self.options.task_after

    def _has_room(self, running: RunningTask) -> bool:
        """Make room for a task; without room, let the call end as a plain one if it can."""
        try:
            self._make_room(running)
        except LimitReachedError:
            running.may_ask = False
            if running.asked:
                # Its client waits for the result, and could not be asked.
                raise
            return False
        return True

    def _make_room(self, running: RunningTask) -> None:
        gone = self.quota.admit(running.record.owner)
        if gone is None:
            setting = self.quota.running.setting
            words = (
                f"Too many tasks run already (`{setting}`, `gateway.tasks_each`). Wait until one "
                "has ended, or cancel one."
            )
            raise LimitReachedError(words, setting=setting, retry_after=_SOON)
        if gone:
            self.quota.forget(gone)
            self._group.start_soon(self.delete, gone)
        self._begin(running)

    def _begin(self, running: RunningTask) -> None:
        running.is_task = True
        self.live[running.id] = running
        self.quota.begin(running.record)
        self.begun.set()

    async def _created(self, running: RunningTask) -> RunningTask:
        """Save a new task: a client gets no id that another gateway does not know."""
        async with running.lock:
            # A fast call has saved its end already.
            if running.revision is None:
                running.revision = await self._save(running.state())
        return running

    async def stay(self) -> None:
        """Say in the store that this gateway lives, so that others leave its tasks to it."""
        now = self.now()
        await anyio.to_thread.run_sync(self.table.stay, self.instance, self.options.task_lease)
        self._stayed = now

    async def stay_now_and_then(self) -> None:
        """Say it again in time; nothing is saved before the store has it."""
        async with self._staying:
            if self.now() - self._stayed > self.options.task_lease / 3:
                await self.stay()

    async def _save(self, record: TaskRecord, expected: int | None = None) -> int:
        if self.table.is_shared:
            await self.stay_now_and_then()
        return await anyio.to_thread.run_sync(lambda: self.table.save(record, expected=expected))

    async def _run(self, running: RunningTask, caller: CallerContext, new: NewTask) -> None:
        ended = self._track(running.scope)
        try:
            with running.scope, new.hold:
                running.result = await self._rounds(running, caller, new.work)
        except RpcError as error:
            running.error = error
        except PegboardError as error:
            running.error = rpc_error_of(error, caller.client.principal)
        except RecursionError:
            running.error = RpcError(INVALID_PARAMS, "The request is nested too deeply.")
        except Exception:
            logger.exception("task_failed: the call of a task ended with an unexpected error")
            running.error = RpcError(INTERNAL_ERROR, "Internal error")
        finally:
            running.was_stopped = running.result is None and running.error is None
            if running.was_stopped:
                running.error = RpcError(INTERNAL_ERROR, _CANCELLED)
            with anyio.CancelScope(shield=True):
                await self._end(running)
            ended()

    async def _rounds(
        self, running: RunningTask, caller: CallerContext, work: Work
    ) -> dict[str, Any]:
        """Run a call; once it is a task, let the client answer what its server asks by results."""
        request = caller.request
        for _ in range(_MOST_ROUNDS):
            result = await work(CallerContext(request, caller.visibility))
            if result.get("resultType") != "input_required" or not running.is_task:
                return result
            answers = await running.ask_all(object_in(result.get("inputRequests")))
            params = {**request.params, "inputResponses": answers}
            params.pop("requestState", None)
            if "requestState" in result:
                params["requestState"] = result["requestState"]
            request = msgspec.structs.replace(request, params=params)
        raise RpcError(INTERNAL_ERROR, f"The server asked more than {_MOST_ROUNDS} times.")

    async def _end(self, running: RunningTask) -> None:
        try:
            if running.is_task:
                with anyio.move_on_after(_SAVING):
                    async with running.lock:
                        await self._save_end(running, *await self._ended(running))
        finally:
            if running.is_task:
                self.quota.end(running.record.owner)
            running.end()

    async def _ended(self, running: RunningTask) -> tuple[TaskRecord, str | None]:
        """Return what the store gets at the end of a call: the task, and its result."""
        record, now = running.record, self.now()
        if running.was_stopped:
            return _stopped(running, now=now), None
        if running.error is not None:
            return record.failed(TaskFailure.of(running.error), now=now), None
        result = running.result or {}
        # In a thread: a result may be large.
        text = await anyio.to_thread.run_sync(written, result)
        size, most = len(text), self.options.task_result_bytes
        if size > most:
            words = (
                f"The result has {size:,} bytes; the gateway keeps at most {most:,} "
                "(`gateway.task_result_bytes`). The call has run: look before you repeat it."
            )
            return record.failed(TaskFailure(code=INTERNAL_ERROR, message=words), now=now), None
        ended = record.with_status(TaskStatus.COMPLETED, None, now=now)
        is_error = result.get("isError") is True
        return msgspec.structs.replace(ended, is_error=is_error, size=size, runner=""), text

    async def _save_end(self, running: RunningTask, record: TaskRecord, text: str | None) -> None:
        gone = self.quota.make_room(record)
        try:
            if running.why_stopped == "expired":
                await self.delete([running.id])
            elif running.why_stopped != "taken":
                expected = running.revision
                running.revision = await anyio.to_thread.run_sync(
                    lambda: self.table.finish(record, text, expected=expected)
                )
                self.quota.note(record)
                if record.status.is_final:
                    self._recent.keep(record, None if text is None else running.result)
            await self.delete(gone)
        except RevisionConflictError:
            # Another gateway has taken the task over, and says what becomes of it.
            logger.warning("task_taken: another gateway goes on with a task of this one")
        except StorageError:
            # It stays in memory, and the next sweep tries again.
            logger.exception("task_not_saved: it will be tried again")
            running.record, running.unsaved = record, text
            return
        running.record = record
        self.live.pop(running.id, None)
        self.on_change(record, running.request.client)

    def _changed(self, running: RunningTask) -> None:
        self.on_change(running.state(), running.request.client)
        if running.id not in self._saving:
            self._saving.add(running.id)
            self._group.start_soon(self._save_change, running)

    async def _save_change(self, running: RunningTask) -> None:
        """Save the state of a task that runs; many changes at a time are saved once."""
        try:
            async with running.lock:
                self._saving.discard(running.id)
                if running.revision is not None and not running.is_over:
                    state = running.state()
                    running.revision = await self._save(state, running.revision)
        except RevisionConflictError:
            running.stop("taken")
        except StorageError:
            logger.exception("task_not_saved: its end will be saved")
        finally:
            self._saving.discard(running.id)


def _apart(caller: CallerContext, running: RunningTask) -> CallerContext:
    """Return the request of a call that runs as a task: it is a plain call in all else."""
    request = caller.request
    params = {key: it for key, it in request.params.items() if key != "task"}
    client = msgspec.structs.replace(request.client, tasks=False)
    apart = msgspec.structs.replace(request, params=params, client=client, task=running)
    return CallerContext(apart, caller.visibility)


def _stopped(running: RunningTask, *, now: float) -> TaskRecord:
    record = running.record
    if running.why_stopped:
        words = _UNANSWERED if running.why_stopped == "unanswered" else _CANCELLED
        stopped = record.with_status(TaskStatus.CANCELLED, words, now=now)
        return msgspec.structs.replace(stopped, runner="")
    if record.upstream is None:
        return record.lost(now=now)
    # Another gateway goes on with it: the server can be asked for it.
    return msgspec.structs.replace(running.state(), runner="")


async def _leave_it(_: object) -> None:
    pass
