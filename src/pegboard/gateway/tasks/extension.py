"""The tasks extension of the modern era (`io.modelcontextprotocol/tasks`, SEP-2663)."""

from collections.abc import Mapping
from typing import Any, cast

from mcp_types import INVALID_PARAMS, MISSING_REQUIRED_CLIENT_CAPABILITY

from pegboard.gateway.builtin_tool import CallerContext
from pegboard.gateway.eras import for_client
from pegboard.gateway.request import Client, RpcError
from pegboard.gateway.tasks.record import POLL_INTERVAL_MS, TaskRecord, moment, read_object
from pegboard.gateway.tasks.tasks import NewTask, Tasks
from pegboard.model.task import TaskStatus
from pegboard.upstream.messages.protocol import TASKS

__all__ = ["STATUS_NOTIFICATION", "ExtensionTasks", "check_declared"]

STATUS_NOTIFICATION = "notifications/tasks"


class ExtensionTasks:
    """Responds to the methods of the extension.

    Args:
        tasks: all tasks of the gateway.
        info: the ``serverInfo`` of the gateway, which results name.
    """

    def __init__(self, tasks: Tasks, info: Mapping[str, Any]) -> None:
        self._tasks = tasks
        self._info = info

    async def call(self, caller: CallerContext, new: NewTask) -> dict[str, Any]:
        """Return the result of a call, or the task that it has become."""
        begun = await self._tasks.begin(caller, new)
        if isinstance(begun, dict):
            return begun
        # Tasks of this era have no progress notifications.
        begun.notifier.redirect(None)
        return {"resultType": "task", **_fields(begun.state())}

    async def get(self, caller: CallerContext) -> dict[str, Any]:
        """Return the state of a task, with its result if it has one."""
        return await self.details(await self._found(caller), caller.client)

    async def update(self, caller: CallerContext) -> dict[str, Any]:
        """Take answers to the questions of a task."""
        record = await self._found(caller)
        responses: object = caller.request.params.get("inputResponses")
        if not isinstance(responses, Mapping):
            words = "`tasks/update` takes `inputResponses`, an object."
            raise RpcError(INVALID_PARAMS, words)
        await self._tasks.update(record, cast("Mapping[str, Any]", responses))
        return {}

    async def cancel(self, caller: CallerContext) -> dict[str, Any]:
        """Stop a task; of one that has ended, nothing changes."""
        await self._tasks.cancel(await self._found(caller))
        return {}

    async def details(self, record: TaskRecord, client: Client) -> dict[str, Any]:
        """Return a task as `tasks/get` and its notifications have it.

        Raises:
            RpcError: when its result is gone.
        """
        fields = _fields(record)
        match record.status:
            case TaskStatus.INPUT_REQUIRED:
                return {**fields, "inputRequests": dict(read_object(record.asked))}
            case TaskStatus.COMPLETED:
                result = await self._tasks.result(record)
                shaped = for_client(result, client, method="tools/call", info=self._info)
                return {**fields, "result": shaped}
            case TaskStatus.FAILED:
                return {**fields, "error": _error(record)}
            case TaskStatus.WORKING | TaskStatus.CANCELLED:
                return fields

    async def _found(self, caller: CallerContext) -> TaskRecord:
        check_declared(caller.client)
        task: object = caller.request.params.get("taskId")
        return await self._tasks.find(caller.client.principal, task)


def check_declared(client: Client) -> None:
    """Refuse a client that does not declare the extension with its request.

    Raises:
        RpcError: when it does not.
    """
    if not client.tasks:
        wanted: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
        words = f"This request needs the capability `{TASKS}`, which it does not declare."
        raise RpcError(MISSING_REQUIRED_CLIENT_CAPABILITY, words, wanted)


def _fields(record: TaskRecord) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "taskId": record.id,
        "status": record.status.value,
        "createdAt": moment(record.created),
        "lastUpdatedAt": moment(record.updated),
        "ttlMs": int(record.ttl * 1000),
        "pollIntervalMs": POLL_INTERVAL_MS,
    }
    return fields if record.message is None else {**fields, "statusMessage": record.message}


def _error(record: TaskRecord) -> dict[str, Any]:
    error = record.error()
    said: dict[str, Any] = {"code": error.code, "message": error.message}
    return said if error.data is None else {**said, "data": error.data}
