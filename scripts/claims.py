"""The measured claims of README, taken from what the bench wrote."""
# ruff: noqa: RUF001 - one language here is Chinese

import json
from typing import Any, NamedTuple

from scripts.places import ROOT

__all__ = ["CLAIMS", "chinese", "english"]


class Claim(NamedTuple):
    """One row of the bench that README quotes."""

    suite: str
    part: str
    row: str
    """What the bench calls it."""
    english: str
    chinese: str
    command: str


_CONNECTIONS = ".venv/bin/python -m bench.run upstreams"
_CALLS = ".venv/bin/python -m bench.run calls"
_GATEWAY = ".venv/bin/python -m bench.run gateway"
_STORES = ".venv/bin/python -m bench.run storage"
CLAIMS = (
    Claim(
        "gateway",
        "",
        "tokens of the definitions that a model carries: fewer than with all tools",
        "reduction in tokens for tool definitions, with 397 real tools",
        "397 个真实工具：工具定义的 token 减少了多少",
        _GATEWAY,
    ),
    Claim(
        "search",
        "goals",
        "mean nDCG@10 over the nine sets, hybrid, set left out",
        "search quality (nDCG@10), mean over nine public sets of questions",
        "搜索质量（nDCG@10），九个公开问题集的平均值",
        "make bench-search",
    ),
    Claim(
        "search",
        "speed",
        "a question at 10,000 tools, p50",
        "time of a search among 10,000 tools, median",
        "在 10,000 个工具中搜索一次的时间，中位数",
        "make bench-search",
    ),
    Claim(
        "upstreams",
        "",
        "a call over stdio, one at a time, the SDK's bare client = 1",
        "time of a call to a stdio server, relative to the SDK's own client",
        "调用一次 stdio 服务器的时间，与直接使用 SDK 客户端相比",
        _CONNECTIONS,
    ),
    Claim(
        "calls",
        "",
        "p50 of a call through the gateway to an HTTPS upstream, the SDK's client; direct = 1",
        "time of a call through the gateway to an HTTPS server, relative to a direct call",
        "经网关调用一次 HTTPS 服务器的时间，与直连相比",
        _CALLS,
    ),
    Claim(
        "gateway",
        "",
        "calls/s, FastMCP's proxy, connected in its better era = 1",
        "calls per second through the gateway, relative to FastMCP's proxy with an open connection",
        "经网关每秒的调用数，与保持连接的 FastMCP 代理相比",
        _GATEWAY,
    ),
    Claim(
        "storage",
        "",
        "kept of 100 registrations by ten threads, SQLite",
        "registrations that are kept, if ten threads make 100 at once",
        "十个线程同时注册共 100 个工具，保存下来的个数",
        _STORES,
    ),
)
"""What README claims; what a goal misses is quoted like the rest."""


def english() -> str:
    """Return the table of README."""
    return _table(("what", "measured", "goal", "see for yourself"), "english", "missed")


def chinese() -> str:
    """Return the same table in Chinese."""
    return _table(("测什么", "结果", "目标", "自己测"), "chinese", "未达到")


def _table(heads: tuple[str, ...], language: str, missed: str) -> str:
    lines = [f"| {' | '.join(heads)} |", "| --- | ---: | ---: | --- |"]
    for claim in CLAIMS:
        row = _row(claim)
        number = f"{row['measured']:,.2f}".removesuffix(".00")
        goal = row["goal"] + (f" ({missed})" if row["met"] is False else "")
        words: str = getattr(claim, language)
        lines.append(f"| {words} | {number}{row['unit']} | {goal} | `{claim.command}` |")
    return "\n".join(lines)


def _row(claim: Claim) -> dict[str, Any]:
    path = ROOT / f"bench/results/{claim.suite}.json"
    rows: Any = json.loads(path.read_text("utf-8"))["rows"]
    for row in rows[claim.part] if claim.part else rows:
        if row["claim"] == claim.row:
            return row
    raise LookupError(f"{path.name} has no row {claim.row!r}; mend scripts/claims.py.")
