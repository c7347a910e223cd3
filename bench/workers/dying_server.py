"""A stdio server without the SDK that dies now and then in mid-call, or never answers: `KIND`."""

import json
import random
import sys

KIND = sys.argv[1]
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
                "serverInfo": {"name": KIND, "version": "1"},
            }
        case "tools/list":
            schema = {"type": "object", "properties": {"text": {"type": "string"}}}
            answer["result"] = {"tools": [{"name": "echo", "inputSchema": schema}]}
        case "tools/call" if KIND == "mute":
            continue
        case "tools/call":
            if random.random() < 0.1:
                sys.exit(1)
            answer["result"] = {"content": [{"type": "text", "text": "alive"}]}
        case _:
            answer["error"] = {"code": -32601, "message": "no such method"}
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
