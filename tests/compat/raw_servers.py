"""A server on stdio that says whatever a test wants, whether or not the protocol has it."""

import json
import sys
from pathlib import Path
from typing import Any

_SCRIPT = """
import json, sys

tools, result, notes = json.loads(sys.argv[1])
for line in sys.stdin:
    message = json.loads(line)
    if notes:
        with open(notes, "a", encoding="utf-8") as file:
            print(message["method"], file=file)
    if message["method"] == "tools/call" and result is None:
        break
    if "id" not in message:
        continue
    answers = {
        "initialize": {
            "protocolVersion": message.get("params", {}).get("protocolVersion"),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "raw", "version": "1"},
        },
        "tools/list": {"tools": tools},
        "tools/call": result,
    }
    method = message["method"]
    error = {"code": -32601, "message": "no such method"}
    answer = {"result": answers[method]} if method in answers else {"error": error}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
"""
ECHO: dict[str, Any] = {"name": "echo", "inputSchema": {"type": "object"}}


def answering(
    result: object = None, *, tools: object = (ECHO,), notes: Path | None = None
) -> tuple[str, list[str]]:
    """The command and the arguments of a server that lists these tools.

    It answers every call with the same result, or dies if there is none, and notes what was asked.
    """
    told = json.dumps([tools, result, notes and str(notes)])
    return sys.executable, ["-c", _SCRIPT, told]
