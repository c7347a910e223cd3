"""What a model has to read: the definitions of all tools, against a handful that finds them."""

import json
import subprocess
from typing import Any

from bench.gateway_catalogues import CATALOGUES, real_tools
from bench.gateway_contenders import OURS, Contender, pegboard
from bench.measure import WORKERS, Row
from bench.peers import python_of

STEPS = [
    "list the files in a directory",
    "show what was changed in the git working tree",
    "search issues in Jira",
    "take a screenshot of a web page",
    "write a value into a cell of an Excel sheet",
]
"""Five steps of a task, for each of which a tool is searched and its definition read."""


def measure_tokens() -> list[Row]:
    """Count with a tokenizer that models use (o200k), over the real catalogues."""
    servers = _servers()
    with pegboard(servers) as gateway:
        shown = {
            "full": _text(_all_tools(gateway, "/mcp-full")),
            "search": _text(_all_tools(gateway, "/mcp-search")),
        }
        answers = [_step(gateway, step) for step in STEPS]
    searched = [_text_of(found) for found, _ in answers]
    described = [_text_of(definition) for _, definition in answers]
    full, search, *rest = _count([shown["full"], shown["search"], *searched, *described])
    found, read = rest[: len(STEPS)], rest[len(STEPS) :]
    task = search + sum(found) + sum(read)
    return [
        _fewer(
            "tokens of the definitions that a model carries: fewer than with all tools",
            1 - search / full,
            0.97,
            f"{search:,} against {full:,} for {sum(map(len, real_tools().values()))} real tools",
        ),
        _fewer(
            "the same with the answers of a task of five steps (search, then one definition each)",
            1 - task / full,
            0.90,
            f"{task:,} tokens; a search {sum(found) / len(found):,.0f} on average, "
            f"{max(found):,} at most; a definition {sum(read) / len(read):,.0f}",
        ),
        Row(
            claim="tokens of an answer of `search_tools` with 5 hits, the longest of five",
            measured=max(found),
            unit="",
            goal="≤ 800",
            met=max(found) <= 800,
        ),
    ]


def _fewer(claim: str, measured: float, goal: float, detail: str) -> Row:
    return Row(
        claim=claim,
        measured=measured * 100,
        unit=" %",
        goal=f"≥ {goal:.0%}".replace("%", " %"),
        met=measured >= goal,
        detail=detail,
    )


def _servers() -> dict[str, Any]:
    script = str(WORKERS / "catalogue_server.py")
    return {
        name: {
            "command": str(OURS),
            "args": ["-S", "-E", script, str((CATALOGUES / f"{name}.json").resolve())],
            "protocol": "legacy",
        }
        for name in real_tools()
    }


def _step(gateway: Contender, step: str) -> tuple[Any, Any]:
    found = _call(gateway, "search_tools", {"query": step})
    best = found["structuredContent"]["tools"][0]["name"]
    return found, _call(gateway, "get_tool_definition", {"tool_name": best})


def _call(gateway: Contender, tool: str, arguments: dict[str, Any]) -> Any:
    params = {"name": tool, "arguments": arguments}
    return _ask(gateway, "/mcp-search", {"method": "tools/call", "params": params})


def _all_tools(gateway: Contender, face: str) -> list[Any]:
    tools: list[Any] = []
    params: dict[str, Any] = {}
    while True:
        page = _ask(gateway, face, {"method": "tools/list", "params": params})
        tools += page["tools"]
        if not page.get("nextCursor"):
            return tools
        params = {"cursor": page["nextCursor"]}


def _ask(gateway: Contender, face: str, request: dict[str, Any]) -> Any:
    run = subprocess.run(
        [OURS, WORKERS / "gateway_ask.py", gateway.origin + face],
        input=json.dumps(request),
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )
    if run.returncode != 0:
        raise SystemExit(f"gateway_ask.py failed:\n{run.stderr}")
    return json.loads(run.stdout.splitlines()[-1])


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _text_of(result: dict[str, Any]) -> str:
    return "\n".join(block["text"] for block in result["content"])


def _count(texts: list[str]) -> list[int]:
    python = python_of("tokens")
    run = subprocess.run(
        [python, WORKERS / "gateway_tokens.py"],
        input=json.dumps(texts),
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    return json.loads(run.stdout)
