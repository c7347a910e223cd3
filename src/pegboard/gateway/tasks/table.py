"""TaskTable: the tasks in a store, their results, and messages to the gateway that runs them."""

import threading
import time
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from pegboard.gateway.tasks.record import TaskRecord
from pegboard.model.json_values import object_in
from pegboard.storage.store import ANY, KeyValues, Revision, Store, StoredValue, check_revision

__all__ = ["InMemoryValues", "Letter", "StoredTask", "TaskTable"]

_TASKS, _RESULTS, _LETTERS, _RUNNERS = "tasks", "task_results", "task_letters", "task_runners"
_RECENT = 1.0


class StoredTask(msgspec.Struct, frozen=True):
    """A task as it is stored, and its revision."""

    record: TaskRecord
    revision: int


class Letter(msgspec.Struct, frozen=True, kw_only=True):
    """What a client asked of a task at a gateway that does not run it."""

    task: str
    cancel: bool = False
    responses: str = ""
    """Answers to its questions, as JSON."""


class TaskTable:
    """The tasks of all tenants in one store; its methods block.

    Args:
        store: where they are kept; ``None`` keeps them in memory, for this process only.
    """

    def __init__(self, store: Store | None) -> None:
        self.is_shared: bool = store is not None
        """Whether another process may read it, now or later."""

        def values(name: str) -> KeyValues:
            return InMemoryValues() if store is None else store.namespace(name)

        self._tasks = values(_TASKS)
        self._results = values(_RESULTS)
        self._letters = values(_LETTERS)
        self._runners = values(_RUNNERS)
        self._loading = threading.Lock()
        self._recent: tuple[float, dict[str, StoredTask]] | None = None

    def load(self, task: str) -> StoredTask | None:
        """Return a task, or ``None`` when there is none that can be read."""
        found = self._tasks.get(task)
        return None if found is None else _task_in(found)

    def load_all(self) -> dict[str, StoredTask]:
        """Return all tasks by their ids."""
        read = {key: _task_in(value) for key, value in self._tasks.items().items()}
        return {key: task for key, task in read.items() if task is not None}

    def load_recent(self) -> dict[str, StoredTask]:
        """Return all tasks as they were a second ago at most, so that many lists cost little."""
        with self._loading:
            recent = self._recent
            if recent is None or time.monotonic() - recent[0] > _RECENT:
                # Before they are read: what is written meanwhile makes this old.
                found: dict[str, StoredTask] = {}
                self._recent = recent = (time.monotonic(), found)
                found.update(self.load_all())
            return recent[1]

    def save(self, record: TaskRecord, *, expected: Revision = ANY) -> int:
        """Save a task and return its revision.

        Raises:
            RevisionConflictError: when another process has changed it.
        """
        try:
            return self._tasks.put(record.id, msgspec.to_builtins(record), expected=expected)
        finally:
            self._recent = None

    def finish(self, record: TaskRecord, result: str | None, *, expected: Revision = ANY) -> int:
        """Save a task that ended, and its result as JSON.

        Raises:
            RevisionConflictError: when another process has changed it.
        """
        if result is not None:
            # First, so that a task that ended always has its result.
            self._results.put(record.id, result)
        return self.save(record, expected=expected)

    def result(self, task: str) -> str | None:
        """Return the result of a task as JSON."""
        found = self._results.get(task)
        return found.value if found is not None and isinstance(found.value, str) else None

    def delete(self, tasks: Iterable[str]) -> None:
        """Delete tasks and their results."""
        gone = list(tasks)
        self._results.delete(gone)
        self._tasks.delete(gone)
        self._recent = None

    def post(self, letter: Letter) -> None:
        """Leave a message for the gateway that runs a task."""
        self._letters.put(str(uuid.uuid4()), msgspec.to_builtins(letter))

    def letters(self) -> dict[str, Letter]:
        """Return the messages that wait, by their keys."""
        read: dict[str, Letter] = {}
        for key, stored in self._letters.items().items():
            try:
                read[key] = msgspec.convert(stored.value, Letter)
            except msgspec.ValidationError:
                read[key] = Letter(task="")
        return read

    def take_letters(self, keys: Iterable[str]) -> None:
        """Delete messages that were read."""
        self._letters.delete(list(keys))

    def stay(self, runner: str, seconds: float) -> None:
        """Say that a gateway lives, and will say so again within this time."""
        self._runners.put(runner, {"until": time.time() + seconds, "seconds": seconds})

    def leave(self, runner: str) -> None:
        """Say that a gateway is gone."""
        self._runners.delete([runner])

    def living(self) -> set[str]:
        """Return the gateways that have said in time that they live."""
        now = time.time()
        runners = {key: _lease(value) for key, value in self._runners.items().items()}
        # What ends later was written by a machine with a wrong clock.
        living = {key for key, (until, long) in runners.items() if now < until <= now + 2 * long}
        gone = [key for key, (until, long) in runners.items() if until < now - 100 * long]
        if gone:
            self._runners.delete(gone)
        return living


class InMemoryValues:
    """Values by key in the memory of this process, as `KeyValues`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, StoredValue] = {}
        self._revision = 0

    def get(self, key: str) -> StoredValue | None:
        """Return a value, or ``None`` if it does not exist."""
        return self._values.get(key)

    def text(self, key: str) -> bytes | None:
        """Return a value as JSON text, or ``None`` if it does not exist."""
        found = self._values.get(key)
        return None if found is None else msgspec.json.encode(found.value)

    def items(self) -> Mapping[str, StoredValue]:
        """Return all values, in the order of their keys."""
        with self._lock:
            return dict(sorted(self._values.items()))

    def keys(self) -> list[str]:
        """Return the keys in order."""
        with self._lock:
            return sorted(self._values)

    def put(self, key: str, value: Any, *, expected: Revision = ANY) -> int:
        """Save a value and return its revision."""
        with self._lock:
            before = self._values.get(key)
            found = None if before is None else before.revision
            check_revision(key, url="memory", expected=expected, found=found)
            self._revision += 1
            self._values[key] = StoredValue(value=value, revision=self._revision)
            return self._revision

    def put_many(self, values: Mapping[str, Any]) -> None:
        """Save many values."""
        for key, value in values.items():
            self.put(key, value)

    def delete(self, keys: Iterable[str]) -> int:
        """Delete values, and return how many existed."""
        with self._lock:
            return sum(self._values.pop(key, None) is not None for key in keys)


def _task_in(stored: StoredValue) -> StoredTask | None:
    try:
        return StoredTask(msgspec.convert(stored.value, TaskRecord), stored.revision)
    except msgspec.ValidationError:
        # A newer version wrote it, or people edited the file: it is as good as gone.
        return None


def _lease(stored: StoredValue) -> tuple[float, float]:
    said = object_in(stored.value)
    until, seconds = said.get("until"), said.get("seconds")
    if isinstance(until, int | float) and isinstance(seconds, int | float):
        return float(until), float(seconds)
    return 0.0, 0.0
