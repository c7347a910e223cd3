"""One request of the modern era: `URL`, the request as JSON on standard input, the result out."""

import json
import sys
import urllib.request

from gateway_load import MODERN, modern_envelope

url, wanted = sys.argv[1], json.load(sys.stdin)
params = {**wanted.get("params", {}), "_meta": modern_envelope()}
message = {"jsonrpc": "2.0", "id": 1, "method": wanted["method"], "params": params}
headers = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": MODERN,
    "Mcp-Method": wanted["method"],
}
name = params.get("name") or params.get("uri")
if name:
    headers["Mcp-Name"] = name
request = urllib.request.Request(url, json.dumps(message).encode(), headers)
with urllib.request.urlopen(request, timeout=60) as answer:
    body = json.load(answer)
if "error" in body:
    raise SystemExit(f"{wanted} was answered with {body['error']}")
print(json.dumps(body["result"]))
