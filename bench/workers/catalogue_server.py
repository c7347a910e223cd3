"""A stdio server without the SDK that offers the tools in a file: `FILE`."""

import json
import sys
from pathlib import Path

TOOLS = json.loads(Path(sys.argv[1]).read_text("utf-8"))
for line in sys.stdin.buffer:
    message = json.loads(line)
    if "id" not in message:
        continue
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    match message["method"]:
        case "initialize":
            answer["result"] = {
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "catalogue", "version": "1"},
            }
        case "tools/list":
            answer["result"] = {"tools": TOOLS}
        case "tools/call":
            text = message["params"].get("arguments", {}).get("text", "done")
            answer["result"] = {"content": [{"type": "text", "text": text}]}
        case _:
            answer["error"] = {"code": -32601, "message": "no such method"}
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
