"""A server without the SDK, of the handshake era, whose tools do one thing each that calls meet."""

import base64
import json
import os
import sys
import threading
from itertools import count
from pathlib import Path
from typing import Any

TEXT = {"type": "string"}
TOOLS: dict[str, dict[str, Any]] = {
    "echo": {
        "type": "object",
        "properties": {
            "text": {"type": "string", "description": "What to say."},
            "number": {"type": "integer"},
            "ratio": {"type": "number"},
            "loud": {"type": "boolean"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "sizes": {"type": "array", "items": {"type": "integer"}},
            "style": {"enum": ["plain", "warm", 3]},
            "place": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "zip": {"type": "integer"}},
            },
            "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        },
        "required": ["text"],
        "additionalProperties": False,
    },
    "draw": {"type": "object"},
    "fail": {"type": "object"},
    "steps": {"type": "object"},
    "ask": {"type": "object"},
    "visit": {"type": "object"},
    "think": {"type": "object"},
    "wait": {"type": "object"},
    "count": {"type": "object"},
}
FORM = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "Where you live."},
        "age": {"type": "integer"},
        "colour": {"type": "string", "enum": ["red", "blue"]},
    },
    "required": ["city", "age"],
}
QUESTIONS: dict[str, dict[str, Any]] = {
    "ask": {"method": "elicitation/create", "message": "Who?", "requestedSchema": FORM},
    "visit": {
        "method": "elicitation/create",
        "message": "Log in.",
        "mode": "url",
        "url": "https://example.com/x",
        "elicitationId": "1",
    },
    "think": {
        "method": "sampling/createMessage",
        "messages": [{"role": "user", "content": {"type": "text", "text": "Well?"}}],
        "maxTokens": 9,
    },
}
_numbers = count(1000)
_asked: dict[int, tuple[threading.Event, list[Any]]] = {}
_calls = count(1)
_writing = threading.Lock()


def main() -> None:
    note("started")
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "method" not in message:
            arrived, answers = _asked[message["id"]]
            answers.append(message.get("result") or message.get("error"))
            arrived.set()
        elif message["method"] == "notifications/cancelled":
            note("cancelled")
        elif "id" in message:
            threading.Thread(target=serve, args=(message,), daemon=True).start()


def note(words: str) -> None:
    """Write down what happened, if the test names a file for it."""
    path = os.environ.get("NOTES")
    if path:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(f"{words}\n")


def serve(request: dict[str, Any]) -> None:
    params = request.get("params", {})
    match request["method"]:
        case "initialize":
            send(
                id=request["id"],
                result={
                    "protocolVersion": params["protocolVersion"],
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "handy", "version": "1.0"},
                },
            )
        case "tools/list":
            tools = [
                {"name": name, "description": f"Does {name}. More.", "inputSchema": schema}
                for name, schema in TOOLS.items()
            ]
            send(id=request["id"], result={"tools": tools})
        case "tools/call":
            result = call(params["name"], params.get("arguments", {}), params.get("_meta", {}))
            send(id=request["id"], result=result)
        case _:
            send(id=request["id"], error={"code": -32601, "message": "Unknown method"})


def call(name: str, arguments: dict[str, Any], meta: dict[str, Any]) -> dict[str, Any]:
    note(f"called {name}")
    match name:
        case "echo":
            return said(json.dumps(arguments), structuredContent=arguments)
        case "draw":
            return drawn()
        case "fail":
            return {**said("It is broken."), "isError": True}
        case "steps":
            take_steps(meta.get("progressToken"))
            return said("done")
        case "wait":
            threading.Event().wait()
            return said("never")
        case _:
            asked = QUESTIONS.get(name)
            return said(str(next(_calls)) if asked is None else json.dumps(ask(**asked)))


def drawn() -> dict[str, Any]:
    picture = {"type": "image", "data": encoded(b"\x89PNG"), "mimeType": "image/png"}
    held = {"uri": "file:///a/../report.bin", "blob": encoded(b"\0\1")}
    blocks = [picture, picture, {"type": "resource", "resource": held}]
    return {"content": [{"type": "text", "text": "Here:"}, *blocks]}


def take_steps(token: object) -> None:
    for step in (1, 2):
        told = {"progress": step, "total": 2, "message": f"step {step}"}
        send(method="notifications/progress", params={"progressToken": token, **told})


def ask(method: str, **params: Any) -> Any:
    number = next(_numbers)
    arrived = threading.Event()
    _asked[number] = arrived, []
    send(id=number, method=method, params=params)
    arrived.wait()
    return _asked[number][1][0]


def said(text: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], **more}


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def send(**message: Any) -> None:
    with _writing:
        sys.stdout.buffer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
