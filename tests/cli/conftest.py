"""A small catalogue and questions to it, as files."""

import json
from pathlib import Path

import pytest

TOOLS = [
    {"id": "a/create_issue", "name": "create_issue", "description": "File a bug.", "server": "a"},
    {"id": "b/create_issue", "name": "create_issue", "description": "Open a ticket."},
    {
        "id": "pay",
        "name": "pay_invoice",
        "description": "付款。\nMore about it.",
        "tags": ["money"],
    },
]
QUERIES = [
    {"id": "1", "query": "pay", "relevant": ["pay"], "lang": "en"},
    {"id": "2", "query": "create_issue", "relevant": ["a/create_issue", "b/create_issue"]},
    {"id": "3", "query": "(", "relevant": ["pay"]},
    {"id": "4", "query": "zzzzqqqq", "relevant": []},
]


@pytest.fixture(autouse=True)
def no_blocking_calls() -> None:
    """A command blocks, and nothing else runs beside it."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, lines in (("tools.jsonl", TOOLS), ("queries.jsonl", QUERIES)):
        written = "".join(json.dumps(it, ensure_ascii=False) + "\n" for it in lines)
        (tmp_path / name).write_text(written, encoding="utf-8")
    return tmp_path
