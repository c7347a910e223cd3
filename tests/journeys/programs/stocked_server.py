"""A server with as many tools as its argument says; each gives back its number."""

import json
import sys
from typing import Any

COUNT = int(sys.argv[1])


def definition(number: int) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"note": {"type": "string"}}}
    text = f"Fetch the item on shelf {number} of the stock."
    return {"name": f"fetch_{number}", "description": text, "inputSchema": schema}


def result_of(request: dict[str, Any]) -> dict[str, Any]:
    params = request.get("params", {})
    match request["method"]:
        case "initialize":
            return {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "stocked", "version": "1"},
            }
        case "tools/list":
            return {"tools": [definition(it) for it in range(COUNT)]}
        case "tools/call":
            return {"content": [{"type": "text", "text": params["name"]}]}
        case _:
            return {}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": result_of(message)}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
