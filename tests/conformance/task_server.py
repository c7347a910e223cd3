"""A server of the modern era over stdio that makes tasks, with the tools that the suite names."""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

Json = dict[str, Any]
AT = "2026-11-19T05:00:00Z"
_tasks: dict[str, Json] = {}


def text(words: str, **more: Any) -> Json:
    return {"resultType": "complete", "content": [{"type": "text", "text": words}], **more}


def form(message: str) -> Json:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    params = {"mode": "form", "message": message, "requestedSchema": schema}
    return {"method": "elicitation/create", "params": params}


def made(**state: Any) -> Json:
    """Make a task; its state is told by ``until``, when it ends, and ``end``, how it does."""
    number = f"theirs-{len(_tasks) + 1}"
    _tasks[number] = {"until": 0.0, "asks": {}, "answers": {}, **state}
    return {"resultType": "task", **described(number)}


def described(number: str) -> Json:
    task = _tasks[number]
    said: Json = {"taskId": number, "createdAt": AT, "lastUpdatedAt": AT}
    said |= {"ttlMs": 600_000, "pollIntervalMs": 50}
    left = {key: it for key, it in task["asks"].items() if key not in task["answers"]}
    if task.get("cancelled"):
        return {**said, "status": "cancelled"}
    if left:
        return {**said, "status": "input_required", "inputRequests": left}
    if time.monotonic() < task["until"]:
        return {**said, "status": "working"}
    return {**said, **task["end"]}


def completed(result: Json) -> Json:
    return {"status": "completed", "result": result}


def greet(params: Json, _: float) -> Json:
    return text(f"Hello, {params.get('arguments', {}).get('name')}!")


def slow_compute(params: Json, now: float) -> Json:
    given = params.get("arguments", {})
    seconds = float(given.get("seconds", 0))
    done = completed(text(f"computed {given.get('label')}"))
    return made(until=now + seconds, end=done) if seconds else done["result"]


def failing_job(_: Json, now: float) -> Json:
    return made(until=now + 1, end=completed(text("no luck", isError=True)))


def protocol_error_job(_: Json, now: float) -> Json:
    error = {"code": -32603, "message": "panic"}
    return made(until=now + 0.5, end={"status": "failed", "error": error})


def confirm_delete(_: Json, __: float) -> Json:
    return made(asks={"confirm": form("Delete it?")}, end=completed(text("deleted")))


def multi_input(_: Json, __: float) -> Json:
    asks = {"first": form("First?"), "second": form("Second?")}
    return made(asks=asks, end=completed(text("both")))


def test_tool_with_task(params: Json, now: float) -> Json:
    answer: Json | None = params.get("inputResponses", {}).get("user_name")
    if answer is None:
        asked = {"user_name": form("Your name?")}
        return {"resultType": "input_required", "inputRequests": asked}
    said = answer.get("content", {}).get("name")
    return made(until=now + 0.5, end=completed(text(f"Hello, {said}!")))


TOOLS: dict[str, Callable[[Json, float], Json]] = {
    it.__name__: it
    for it in (
        *(greet, slow_compute, failing_job, protocol_error_job),
        *(confirm_delete, multi_input, test_tool_with_task),
    )
}


TASKS: Json = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
REQUIRED = ("failing_job", "test_tool_with_task")
"""The tools that cannot do without a task."""


class UndeclaredError(Exception):
    """A client that does not say that it has tasks calls a tool that needs one."""


def call(name: str, params: Json) -> Json:
    said = params.get("_meta", {}).get("io.modelcontextprotocol/clientCapabilities", {})
    if name in REQUIRED and not said.get("extensions", {}).keys() >= TASKS["extensions"].keys():
        raise UndeclaredError
    return TOOLS[name](params, time.monotonic())


def respond(method: str, params: Json) -> Json:
    match method:
        case "server/discover":
            can = {"tools": {}, **TASKS}
            hints = {"ttlMs": 0, "cacheScope": "private", "resultType": "complete"}
            return {"supportedVersions": ["2026-07-28"], "capabilities": can, **hints}
        case "tools/list":
            tools = [{"name": it, "inputSchema": {"type": "object"}} for it in TOOLS]
            return {"tools": tools, "ttlMs": 0, "cacheScope": "private", "resultType": "complete"}
        case "tools/call":
            return call(params["name"], params)
        case "tasks/get":
            return {"resultType": "complete", **described(params["taskId"])}
        case "tasks/update":
            _tasks[params["taskId"]]["answers"].update(params["inputResponses"])
        case "tasks/cancel":
            _tasks[params["taskId"]]["cancelled"] = True
        case _:
            raise LookupError(method)
    return {"resultType": "complete"}


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request or "method" not in request:
            continue
        said: Json = {"jsonrpc": "2.0", "id": request["id"]}
        try:
            said["result"] = respond(request["method"], request.get("params", {}))
        except UndeclaredError:
            data = {"requiredCapabilities": TASKS}
            said["error"] = {"code": -32021, "message": "It needs tasks.", "data": data}
        except LookupError as error:
            said["error"] = {"code": -32601, "message": f"Unknown: {error}"}
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
