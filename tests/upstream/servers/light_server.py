"""The echo server without the SDK: handshake era only, but it starts in a fiftieth of the time."""

import json
import os
import sys
import threading
from typing import Any

SCHEMAS: dict[str, dict[str, str]] = {
    "echo": {"text": "string"},
    "add": {"a": "number", "b": "number"},
    "slow": {"seconds": "number"},
    "fail": {"message": "string"},
    "big": {"n": "integer"},
    "crash": {},
    "progress": {"n": "integer"},
    "env": {"name": "string"},
    "pid": {},
}
_writing = threading.Lock()
_cancelled: dict[Any, threading.Event] = {}


def main() -> None:
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if message.get("method") == "notifications/cancelled":
            waiting = _cancelled.get(message["params"].get("requestId"))
            if waiting:
                waiting.set()
        elif "method" in message and "id" in message:
            _serve(message)


def send(message: dict[str, Any]) -> None:
    data = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
    with _writing:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def _serve(request: dict[str, Any]) -> None:
    params = request.get("params", {})
    match request["method"]:
        case "initialize":
            result = {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {"listChanged": False}},
                "serverInfo": {"name": "light", "version": "1.0"},
            }
        case "ping":
            result = {}
        case "tools/list":
            result = {"tools": [_definition(name) for name in SCHEMAS]}
        case "tools/call" if params["name"] == "slow":
            _cancelled[request["id"]] = threading.Event()
            threading.Thread(target=_slow, args=(request,), daemon=True).start()
            return
        case "tools/call":
            result = _call(params)
        case method:
            error = {"code": -32601, "message": f"No method is named {method!r}."}
            send({"id": request["id"], "error": error})
            return
    send({"id": request["id"], "result": result})


def _slow(request: dict[str, Any]) -> None:
    if not _cancelled[request["id"]].wait(request["params"]["arguments"]["seconds"]):
        send({"id": request["id"], "result": _text("done")})


def _call(params: dict[str, Any]) -> dict[str, Any]:  # noqa: PLR0911 - one for each tool
    arguments = params.get("arguments") or {}
    match params["name"]:
        case "echo":
            return _text(arguments["text"])
        case "add":
            total = arguments["a"] + arguments["b"]
            return {**_text(str(total)), "structuredContent": {"total": total}}
        case "fail":
            return {**_text(arguments["message"]), "isError": True}
        case "big":
            return _text("x" * arguments["n"])
        case "crash":
            os._exit(arguments.get("code", 1))
        case "progress":
            token = params.get("_meta", {}).get("progressToken")
            for step in range(1, arguments["n"] + 1 if token is not None else 0):
                progress = {"progressToken": token, "progress": step, "total": arguments["n"]}
                send({"method": "notifications/progress", "params": progress})
            return _text("done")
        case "env":
            return _text(os.environ.get(arguments["name"], ""))
        case "pid":
            return _text(str(os.getpid()))
        case name:
            return {**_text(f"No tool is named {name!r}."), "isError": True}


def _text(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}]}


def _definition(name: str) -> dict[str, Any]:
    properties = {argument: {"type": kind} for argument, kind in SCHEMAS[name].items()}
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"name": name, "description": f"The tool {name}.", "inputSchema": schema}


if __name__ == "__main__":
    main()
