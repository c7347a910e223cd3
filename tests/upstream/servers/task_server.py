"""A server that makes tasks of calls, in both eras, without the SDK: each call says how it goes.

As a program it speaks over stdio: ``task_server.py ERA [FILE]``; with a file its tasks survive it.
"""

import json
import os
import sys
from collections.abc import Callable  # noqa: TC003 - it runs without type checking, too
from pathlib import Path
from typing import Any

Json = dict[str, Any]
UNKNOWN: Json = {"code": -32602, "message": "Failed to retrieve task: Task not found"}
DEFINITIONS: list[Json] = [
    {"name": "go", "inputSchema": {"type": "object"}},
    {"name": "may", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "optional"}},
    {"name": "must", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "required"}},
]
"""``go`` makes a task of every call with ``states``; the others only if they are asked to."""


class TaskServer:
    """Responds to requests. The arguments of a call are a script of its task:

    - ``states``: what each poll finds, the last one for ever: fields of the task, or ``rpc_error``,
      ``silent`` (no answer), ``exit`` (the process ends);
    - ``task``: fields of the task as it is made; ``result``, ``error``: how a core task ends;
      ``question``: what a core task asks while its result is waited for.

    With ``is_late``, the task is made at once, and the call is answered at the next call.
    A state may also have ``progress``, and messages that the server ``says`` before it.
    """

    def __init__(self, era: str, file: Path | None = None) -> None:
        self.is_modern: bool = era == "modern"
        self.seen: list[Json] = []
        """All requests, the oldest first."""
        self.send: Callable[[Json], None] = lambda _: None
        """Sends a message that is no response, if the transport can."""
        self.on_silence: Callable[[], None] = lambda: None
        """Called for each request that gets no response."""
        self.next_id: str | None = None
        self.definitions: list[Json] = DEFINITIONS
        self.capabilities: Json = {"tools": {}}
        if not self.is_modern:
            can: Json = {"requests": {"tools": {"call": {}}}, "cancel": {}}
            self.capabilities["tasks"] = can
        self._file = file
        self._answers: list[Json] = []
        """The responses to what the server said by itself."""
        self._late: Json | None = None
        """A response that is sent with the next one."""
        self._tasks: dict[str, Json] = {}
        self._waiting: dict[str, Json] = {}
        """Requests for results that wait for an answer, by the ids of the server's questions."""
        if file is not None and file.exists():
            self._tasks = json.loads(file.read_text("utf-8"))

    def asked(self, method: str) -> list[Json]:
        """The parameters of all requests of a method."""
        return [it.get("params", {}) for it in self.seen if it.get("method") == method]

    def respond(self, request: Json) -> Json | None:
        """Return the response to a request; ``None`` if it has none, or none yet."""
        self.seen.append(request)
        if "method" not in request:
            return self._answered(request)
        if "id" not in request:
            return None
        method = request["method"]
        handle = getattr(self, "_" + method.replace("/", "_").lower(), None)
        if handle is None:
            return _error(request, {"code": -32601, "message": f"No method {method!r}."})
        return handle(request, request.get("params", {}))

    def _result(self, request: Json, **fields: Any) -> Json:
        said: Json = {"resultType": "complete", **fields} if self.is_modern else fields
        return {"jsonrpc": "2.0", "id": request["id"], "result": said}

    def _initialize(self, request: Json, params: Json) -> Json:
        if self.is_modern:
            return _error(request, {"code": -32601, "message": "No handshake."})
        info = {"name": "tasks", "version": "1"}
        said = {"protocolVersion": params["protocolVersion"], "serverInfo": info}
        return self._result(request, **said, capabilities=self.capabilities)

    def _server_discover(self, request: Json, _: Json) -> Json:
        if not self.is_modern:
            return _error(request, {"code": -32601, "message": "No method 'server/discover'."})
        extensions = {"io.modelcontextprotocol/tasks": {}}
        can = {**self.capabilities, "extensions": extensions}
        said: Json = {"supportedVersions": ["2026-07-28"], "ttlMs": 0, "cacheScope": "private"}
        return self._result(request, **said, capabilities=can)

    def _tools_list(self, request: Json, _: Json) -> Json:
        return self._result(request, tools=self.definitions, ttlMs=0, cacheScope="private")

    def _tools_call(self, request: Json, params: Json) -> Json | None:
        script = params.get("arguments") or {}
        is_wanted = params["name"] == "go" or "task" in params
        if self._late is not None:
            self.send(self._late)
            self._late = None
        if not is_wanted or "states" not in script:
            return self._result(request, **_text("plain"))
        number = self.next_id or f"task-{len(self._tasks) + 1}"
        self._tasks[number] = {"script": script, "polls": 0, "over": ""}
        if (token := params.get("_meta", {}).get("progressToken")) is not None:
            self._tasks[number]["token"] = token
        self._save()
        made = self._task(number, {"status": "working", **script.get("task", {})})
        fields = {**made, "resultType": "task"} if self.is_modern else {"task": made}
        response = self._result(request, **fields)
        if script.get("is_late"):
            self._late = response
            return None
        return response

    def _tasks_get(self, request: Json, params: Json) -> Json | None:
        task = self._tasks.get(params["taskId"])
        if task is None:
            return _error(request, UNKNOWN)
        states = task["script"]["states"]
        state: Json = (
            {"status": task["over"]}
            if task["over"]
            else dict(states[min(task["polls"], len(states) - 1)])
        )
        task["polls"] += 1
        self._save()
        if state.pop("exit", False):
            os._exit(3)
        if state.pop("silent", False):
            self.on_silence()
            return None
        if (error := state.pop("rpc_error", None)) is not None:
            return _error(request, error)
        self._push(params["taskId"], task, state)
        if task["over"] == "completed" and self.is_modern:
            state["result"] = task["result"]
        return self._result(request, **self._task(params["taskId"], state))

    def _push(self, number: str, task: Json, state: Json) -> None:
        """Send the notifications that a state has, and the progress."""
        if (done := state.pop("progress", None)) is not None:
            progress = {"progressToken": task.get("token"), "progress": done}
            self.send({"method": "notifications/progress", "params": progress})
        for message in state.pop("says", ()):
            self.send(json.loads(json.dumps(message).replace("TASK", number)))

    def _tasks_result(self, request: Json, params: Json) -> Json | None:
        task = self._tasks.get(params["taskId"])
        if task is None or self.is_modern:
            return _error(request, UNKNOWN)
        question = task["script"].get("question")
        if question is not None and not task["over"]:
            # Sent while its result is waited for, and marked with its task.
            number = f"ask-{len(self._waiting)}"
            self._waiting[number] = {"request": request, "task": task}
            meta = {"io.modelcontextprotocol/related-task": {"taskId": params["taskId"]}}
            asked = {**question, "params": {**question["params"], "_meta": meta}}
            self.send({"id": number, **asked})
            return None
        if (error := task["script"].get("error")) is not None:
            return _error(request, error)
        result = task.get("result") or task["script"].get("result") or _text("done")
        if task["script"].get("tells_answers"):
            result = _text(json.dumps(self._answers))
        meta = {"io.modelcontextprotocol/related-task": {"taskId": params["taskId"]}}
        return self._result(request, **result, _meta=meta)

    def _answered(self, response: Json) -> Json | None:
        """End the task whose question has its answer."""
        waiting = self._waiting.pop(response["id"], None)
        if waiting is None:
            self._answers.append(response)
            return None
        task = waiting["task"]
        task["over"], task["result"] = "completed", _text(json.dumps(response.get("result")))
        return self._tasks_result(waiting["request"], waiting["request"]["params"])

    def _tasks_update(self, request: Json, params: Json) -> Json:
        task = self._tasks.get(params["taskId"])
        if task is None:
            return _error(request, UNKNOWN)
        if (error := task["script"].get("update_error")) is not None:
            return _error(request, error)
        task["over"], task["result"] = "completed", _text(json.dumps(params["inputResponses"]))
        return self._result(request)

    def _tasks_cancel(self, request: Json, params: Json) -> Json:
        task = self._tasks.get(params["taskId"])
        if task is None:
            return _error(request, UNKNOWN)
        task["over"] = "cancelled"
        if self.is_modern:
            return self._result(request)
        return self._result(request, **self._task(params["taskId"], {"status": "cancelled"}))

    def _task(self, number: str, fields: Json) -> Json:
        at = "2026-11-19T05:00:00Z"
        task: Json = {"taskId": number, "createdAt": at, "lastUpdatedAt": at}
        task |= {"ttlMs": 60_000, "pollIntervalMs": 1, **fields}
        if not self.is_modern:
            task["ttl"], task["pollInterval"] = task.pop("ttlMs"), task.pop("pollIntervalMs")
        return task

    def _save(self) -> None:
        if self._file is not None:
            self._file.write_text(json.dumps(self._tasks), "utf-8")


def _text(text: str) -> Json:
    return {"content": [{"type": "text", "text": text}]}


def _error(request: Json, error: Json) -> Json:
    return {"jsonrpc": "2.0", "id": request["id"], "error": error}


def main(era: str, file: str = "") -> None:
    server = TaskServer(era, Path(file) if file else None)

    def send(message: Json) -> None:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()

    server.send = send
    for line in sys.stdin:
        response = server.respond(json.loads(line))
        if response is not None:
            send(response)


if __name__ == "__main__":
    main(*sys.argv[1:])
