"""TaskUpkeep: tasks end in time, hear what other gateways were asked, and outlive their gateway.

Each gateway says in the store that it lives while it runs tasks. The tasks of one that has said
nothing for a while are taken over: those that their servers can be asked for go on, and the others
have failed. One gateway wins, because the store compares revisions.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from typing import Any

import anyio
import anyio.to_thread
import msgspec

from pegboard.errors import RevisionConflictError, StorageError
from pegboard.gateway.builtin_tool import CallerContext
from pegboard.gateway.request import Client, ClientRequest, RpcError
from pegboard.gateway.tasks.record import TaskRecord, read_object
from pegboard.gateway.tasks.running_task import Push, RunningTask
from pegboard.gateway.tasks.table import StoredTask
from pegboard.gateway.tasks.tasks import NewTask, Tasks
from pegboard.gateway.visibility import Visibility
from pegboard.model.principal import Principal
from pegboard.upstream.messages.extensions import UI, declares

__all__ = ["Resume", "TaskUpkeep"]

logger: logging.Logger = logging.getLogger("pegboard.gateway")

Resume = Callable[[CallerContext, TaskRecord], Awaitable[dict[str, Any]]]
"""Asks the server of a task for its result, and waits for it."""
_BUSY = 1.0
"""Seconds between two looks at the store while tasks run here."""
_LOOKS = 2
"""All tasks of the store are read every so many times the lease."""


class TaskUpkeep:
    """Looks after the tasks of a gateway, and after those that others have left.

    Args:
        tasks: the tasks.
        resume: goes on with a task of a server.
        push: asks clients of the handshake era.
    """

    def __init__(self, tasks: Tasks, resume: Resume, push: Push) -> None:
        self._tasks = tasks
        self._table = tasks.table
        self._resume = resume
        self._push = push
        self._lease = tasks.options.task_lease
        self._next_look = float("-inf")
        self._seen: dict[str, float] = {}
        """When the tasks of other gateways that clients follow were last changed."""
        tasks.take_over = self.take_over

    async def run(self) -> None:
        """Look after the tasks until this is cancelled; then say in the store that it is over."""
        try:
            while True:
                try:
                    await self.look()
                except StorageError:
                    logger.exception("tasks_not_looked_after: it will be tried again")
                await self._pause()
        finally:
            with anyio.move_on_after(_BUSY, shield=True):
                await self._leave()

    async def _pause(self) -> None:
        if self._tasks.live or self._tasks.followed:
            await anyio.sleep(min(_BUSY, self._lease / 3))
            return
        self._tasks.begun = anyio.Event()
        with anyio.move_on_after(self._lease / 3):
            await self._tasks.begun.wait()

    async def look(self) -> None:
        """Do once what has to be done now and then."""
        await self._expire()
        if not self._table.is_shared:
            return
        if self._tasks.live:
            await self._tasks.stay_now_and_then()
            await self._tasks.save_late()
            await self._read_letters()
        await self._look_at_followed()
        if anyio.current_time() >= self._next_look:
            self._next_look = anyio.current_time() + _LOOKS * self._lease
            await self._read_all()

    async def take_over(self, stored: StoredTask) -> TaskRecord | None:
        """Go on with a task if its gateway is gone; return what it is now, or ``None``."""
        living = await anyio.to_thread.run_sync(self._table.living)
        return await self._take_over(stored) if stored.record.runner not in living else None

    async def _take_over(self, stored: StoredTask) -> TaskRecord | None:
        record = stored.record
        if record.id in self._tasks.live:
            return None
        is_lost = record.upstream is None
        claimed = msgspec.structs.replace(record, runner=self._tasks.instance)
        if is_lost:
            claimed = record.lost(now=self._tasks.now())
        else:
            await self._tasks.stay()
        try:
            revision = await anyio.to_thread.run_sync(
                lambda: self._table.save(claimed, expected=stored.revision)
            )
        except RevisionConflictError:
            return None
        logger.info("task_taken_over: %s", "it is lost" if is_lost else "it goes on")
        if is_lost:
            self._tasks.quota.note(claimed)
            self._tasks.on_change(claimed, None)
        else:
            self._go_on(claimed, revision)
        return claimed

    def _go_on(self, record: TaskRecord, revision: int) -> None:
        principal = Principal(
            tenant=record.tenant, subject=record.subject, scopes=frozenset({"call"})
        )
        client = Client(
            principal=principal,
            era=record.era,
            version=record.version,
            capabilities=read_object(record.capabilities),
        )
        request = ClientRequest(
            method="tools/call", params={"name": record.tool}, client=client, channel=_Nowhere()
        )
        running = self._tasks.running(
            request, record, push=self._push if record.era == "legacy" else None
        )
        running.revision = revision
        # Tools that only apps call end as tasks, too.
        visibility = Visibility(principal, apps=declares(client.capabilities, UI))
        caller = CallerContext(msgspec.structs.replace(request, task=running), visibility)

        async def work(caller: CallerContext) -> dict[str, Any]:
            return await self._resume(caller, record)

        new = NewTask(
            name=record.tool, tool=None, relays=record.relays, hold=nullcontext(), work=work
        )
        self._tasks.resume(running, caller, new)

    async def _expire(self) -> None:
        gone: list[str] = []
        for task in self._tasks.quota.expired():
            running: RunningTask | None = self._tasks.live.get(task)
            if running is None or running.is_over:
                self._tasks.live.pop(task, None)
                gone.append(task)
            else:
                running.stop("expired")
        await self._tasks.delete(gone)

    async def _read_letters(self) -> None:
        letters = await anyio.to_thread.run_sync(self._table.letters)
        mine = {key: it for key, it in letters.items() if it.task in self._tasks.live}
        for letter in mine.values():
            running = self._tasks.live[letter.task]
            running.take(read_object(letter.responses))
            if letter.cancel:
                running.stop("cancelled")
        if mine:
            await anyio.to_thread.run_sync(self._table.take_letters, mine)

    async def _look_at_followed(self) -> None:
        """Report what became of tasks that clients follow here and another gateway runs."""
        followed = [it for it in self._tasks.followed if it not in self._tasks.live]
        self._seen = {task: it for task, it in self._seen.items() if task in followed}
        for task in followed:
            stored = await anyio.to_thread.run_sync(self._table.load, task)
            if stored is None:
                continue
            updated = stored.record.updated
            if self._seen.setdefault(task, updated) != updated:
                self._seen[task] = updated
                self._tasks.on_change(stored.record, None)

    async def _read_all(self) -> None:
        """Take in what other gateways did, and take over what they have left."""
        # First the letters: the task of a letter is always older than it.
        letters = await anyio.to_thread.run_sync(self._table.letters)
        stored = await anyio.to_thread.run_sync(self._table.load_all)
        self._tasks.take_in(it.record for it in stored.values())
        open_tasks = {
            key: it
            for key, it in stored.items()
            if not it.record.status.is_final and key not in self._tasks.live
        }
        useless = [
            key
            for key, it in letters.items()
            if it.task not in stored or stored[it.task].record.status.is_final
        ]
        if useless:
            await anyio.to_thread.run_sync(self._table.take_letters, useless)
        if open_tasks:
            living = await anyio.to_thread.run_sync(self._table.living)
            for it in open_tasks.values():
                if it.record.runner not in living:
                    await self._take_over(it)

    async def _leave(self) -> None:
        if self._table.is_shared:
            try:
                await anyio.to_thread.run_sync(self._table.leave, self._tasks.instance)
            except StorageError:
                logger.debug("not_left: others learn it by the lease")


class _Nowhere:
    """The channel of a call whose client is not there: it asks for the task."""

    @property
    def can_ask(self) -> bool:
        """Never."""
        return False

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send nothing."""

    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Refuse: no client is there."""
        raise RpcError(-32000, "The client is gone.")
