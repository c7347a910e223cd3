"""How often the right tool is among the first five, over the real catalogues of 21 servers.

The bench measures it on thousands of questions, which are no part of the repository. These few are
asked at every run of the tests, of the search as it is now.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import pytest

from pegboard.model import Tool
from pegboard.search.evaluation import build_by
from pegboard.search.options import DEFAULT_METHOD

CATALOGS = Path(__file__).parents[1] / "data" / "catalogs"


class Question(NamedTuple):
    """What an agent wants to do, a pattern for it, and the tools of which any is right."""

    text: str
    pattern: str
    right: set[str]


QUESTIONS = [
    Question("save my staged changes with a message", "git.*commit", {"git_commit"}),
    Question("which commits were made last week", "git.*log", {"git_log"}),
    Question("switch to another branch", "branch|checkout", {"git_checkout"}),
    Question("what time is it in Tokyo", "current.*time", {"get_current_time"}),
    Question("rename a file on the disk", "(rename|move).*file", {"move_file"}),
    Question("make a new folder", "create.*(folder|directory)", {"create_directory"}),
    Question(
        "take a picture of the web page",
        "screenshot",
        {"take_screenshot", "browser_take_screenshot"},
    ),
    Question("leave a comment on a Jira ticket", "jira.*comment", {"jira_add_comment"}),
    Question("assign the ticket to my colleague", "assign.*(issue|ticket)", {"jira_assign_issue"}),
    Question("book the hours I worked on an issue", "(add|log).*work", {"jira_add_worklog"}),
    Question("who is watching this issue", "issue.*watch", {"jira_get_issue_watchers"}),
    Question("publish a new page in Confluence", "confluence.*create", {"confluence_create_page"}),
    Question("show the output of a pod", "(pod|kubectl).*logs", {"kubectl_logs"}),
    Question(
        "run five replicas of a deployment", "scale.*replica|kubectl_scale", {"kubectl_scale"}
    ),
    Question("run a command inside a container", "exec.*(pod|container)", {"exec_in_pod"}),
    Question("turn the document into a PDF", "convert.*pdf", {"convert_to_pdf"}),
    Question("lock a Word file with a password", "protect.*(document|word)", {"protect_document"}),
    Question("draw a bar chart in the spreadsheet", "create.*chart", {"create_chart"}),
    Question("summarise rows in a pivot table", "create.*pivot", {"create_pivot_table"}),
    Question("order the cells by a column", "sort.*(range|cells)", {"sort_range"}),
    Question("which tables does the database have", "tables", {"list_tables", "all_table_names"}),
    Question("look something up on the web", "web.*search|search.*web", {"search"}),
    Question("work out 17 percent of 240", "calculat", {"calculate"}),
    Question(
        "latitude and longitude of a place",
        "coordinates",
        {"get_coordinates", "wikipedia_get_coordinates"},
    ),
    Question("把文件移动到另一个目录", "move.*file", {"move_file"}),
    Question("现在北京几点", "current.*time", {"get_current_time"}),
]


def catalogue() -> list[Tool]:
    return [
        Tool(
            name=raw["name"],
            description=raw.get("description") or "",
            input_schema=raw.get("inputSchema") or {},
            server=path.stem,
        )
        for path in sorted(CATALOGS.glob("*.json"))
        for raw in json.loads(path.read_text("utf-8"))
    ]


def recall_5(method: str, texts: Iterable[str]) -> float:
    search = build_by(method)(catalogue())
    return fmean(
        not question.right.isdisjoint(search(text)[:5])
        for question, text in zip(QUESTIONS, texts, strict=True)
    )


@pytest.mark.covers("R-REG-14")
@pytest.mark.parametrize(("method", "least"), [("bm25", 0.64), ("embedding", 0.75)])
def test_words_and_meaning_find_what_the_document_expects_of_them(
    method: str, least: float
) -> None:
    assert recall_5(method, (it.text for it in QUESTIONS)) >= least


@pytest.mark.covers("R-REG-14")
def test_patterns_find_what_the_document_expects_of_them() -> None:
    assert recall_5("regex", (it.pattern for it in QUESTIONS)) >= 0.56


@pytest.mark.covers("R-REG-4")
def test_the_default_offers_the_right_tool_as_often_as_the_document_says() -> None:
    assert recall_5(DEFAULT_METHOD, (it.text for it in QUESTIONS)) >= 0.74
