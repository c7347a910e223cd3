"""Small servers that are ill in one way each, and what the doctor says of them."""

import json
import sys
from pathlib import Path
from typing import Any

from pegboard.doctor import Finding, ProbeLimits, Report, diagnose

TOOL = {"name": "greet", "description": "Greet somebody.", "inputSchema": {"type": "object"}}
HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "patient", "version": "1"},
}
_SERVER = """
import json, os, sys

def answer(message, **said):
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **said}), flush=True)

hello, tools = json.loads(sys.argv[1]), json.loads(sys.argv[2])
BEFORE
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "initialize":
        answer(message, **hello)
    elif message.get("method") == "tools/list":
        LISTED
        answer(message, result={"tools": tools})
    elif "id" in message:
        answer(message, error={"code": -32601, "message": "unknown"})
"""


def python(code: str, *args: str, **entry: Any) -> dict[str, Any]:
    return {"command": sys.executable, "args": ["-c", code, *args], **entry}


def shell(script: str, **entry: Any) -> dict[str, Any]:
    return {"command": "sh", "args": ["-c", script], **entry}


def speaking(
    *tools: object, hello: object = None, before: str = "", listed: str = "", **entry: Any
) -> dict[str, Any]:
    """A server that lists these tools."""
    code = _SERVER.replace("BEFORE", before).replace("LISTED", listed or "pass")
    said = {"result": HELLO} if hello is None else hello
    return python(code, json.dumps(said), json.dumps(tools), **entry)


async def report_of(servers: dict[str, Any], *, seconds: float = 20.0, **options: Any) -> Report:
    options.setdefault("limits", ProbeLimits(each=seconds))
    return await diagnose({"mcpServers": servers}, **options)


async def found_in(entry: dict[str, Any], *, seconds: float = 20.0) -> list[Finding]:
    """What is found in a server named ``it``."""
    return list((await report_of({"it": entry}, seconds=seconds)).findings)


def codes(findings: list[Finding] | tuple[Finding, ...]) -> list[str]:
    return [it.code for it in findings]


async def diagnosis(entry: dict[str, Any], code: str, *, seconds: float = 20.0) -> Finding:
    """The one finding that there is to be."""
    findings = await found_in(entry, seconds=seconds)
    assert codes(findings) == [code], findings
    assert findings[0].server == "it"
    assert_in_words(findings[0])
    return findings[0]


def assert_in_words(finding: Finding) -> None:
    assert finding.what.endswith((".", "!", "?", "…", ")")), finding.what
    assert finding.remedy.endswith((".", "?")), finding.remedy
    assert finding.what.isprintable()
    assert finding.remedy.isprintable()


def script(path: Path, text: str, mode: int = 0o755) -> str:
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return str(path)
