"""A server without the SDK, in either era, whose tool `deep` is nested as deeply as asked."""

import json
import sys
from typing import Any

MODERN = "2026-07-28"


def main() -> None:
    era, levels = sys.argv[1], int(sys.argv[2])
    for line in sys.stdin.buffer:
        said = answer(json.loads(line), era=era, levels=levels)
        if said is not None:
            sys.stdout.write(said + "\n")
            sys.stdout.flush()


def answer(request: dict[str, Any], *, era: str, levels: int) -> str | None:
    """What the server says; a notification is not answered."""
    if "id" not in request:
        return None
    start = {"jsonrpc": "2.0", "id": request["id"]}
    result = _result(request, era, levels)
    if result is None:
        return json.dumps({**start, "error": {"code": -32601, "message": "unknown"}})
    # By hand: what `json` writes is not that deep.
    return json.dumps(start)[:-1] + f', "result": {result}}}'


def _result(request: dict[str, Any], era: str, levels: int) -> str | None:
    about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "deep", "version": "1"}}
    match request["method"]:
        case "initialize" if era == "legacy":
            return json.dumps({"protocolVersion": "2025-06-18", **about})
        case "server/discover" if era == "modern":
            return json.dumps({"resultType": "complete", "supportedVersions": [MODERN], **about})
        case "tools/list":
            return _tools(levels)
        case "tools/call" if request["params"]["name"] == "go":
            return '{"resultType": "complete", "content": [{"type": "text", "text": "fine"}]}'
        case "tools/call":
            return (
                '{"resultType": "complete", "content": [], "structuredContent": '
                f'{{"tools": [{{"x": {_nested(levels)}}}]}}}}'
            )
        case _:
            return None


def _tools(levels: int) -> str:
    open_ = '{"type": "object"}'
    fields = {
        "before": f'"inputSchema": {open_}',
        "deep": f'"inputSchema": {_nested(levels)}, "description": "]}}"',
        "out": f'"inputSchema": {open_}, "outputSchema": {_nested(levels)}',
        "hinted": f'"inputSchema": {open_}, "annotations": {_nested(levels)}',
        "go": f'"inputSchema": {open_}',
        "structured": f'"inputSchema": {open_}',
    }
    tools = ", ".join(f'{{"name": "{name}", {more}}}' for name, more in fields.items())
    return f'{{"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": [{tools}]}}'


def _nested(levels: int) -> str:
    return '{"x":' * levels + '"{[\\\\\\"["' + "}" * levels


if __name__ == "__main__":
    main()
