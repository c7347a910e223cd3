"""A stdio server without the SDK that takes a while to start, and notes its pid in a file."""

import json
import os
import sys
import time

time.sleep(float(sys.argv[1]))
if len(sys.argv) > 2:
    with open(sys.argv[2], "a", encoding="ascii") as file:  # noqa: PTH123
        file.write(f"{os.getpid()}\n")
for line in sys.stdin.buffer:
    message = json.loads(line)
    if "id" not in message:
        continue
    match message["method"]:
        case "initialize":
            result = {
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "slow", "version": "1"},
            }
        case "tools/list":
            schema = {"type": "object", "properties": {"text": {"type": "string"}}}
            result = {
                "tools": [
                    {"name": f"tool_{n}", "description": "A tool.", "inputSchema": schema}
                    for n in range(10)
                ]
            }
        case "tools/call":
            result = {"content": [{"type": "text", "text": "done"}]}
        case _:
            error = {"code": -32601, "message": "no such method"}
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}))
            sys.stdout.write("\n")
            sys.stdout.flush()
            continue
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}) + "\n")
    sys.stdout.flush()
