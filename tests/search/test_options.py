from typing import Any

import pytest

from pegboard.errors import InvalidQueryError
from pegboard.model import Tool
from pegboard.search import Query, brief, tokens_of
from pegboard.search.options import queries_of, query_of


def test_a_text_alone_is_a_query() -> None:
    assert query_of("send email", {}) == Query(text="send email", limit=5)


def test_options_make_a_query() -> None:
    query = query_of(
        "x",
        {
            "limit": 7,
            "servers": ["a", "b"],
            "tags": ("t",),
            "categories": {"c"},
            "explain": True,
            "matches": False,
        },
    )
    assert query == Query(
        text="x",
        limit=7,
        servers=frozenset("ab"),
        tags=frozenset("t"),
        categories=frozenset("c"),
        explain=True,
        matches=False,
    )


@pytest.mark.parametrize(
    ("text", "options", "option"),
    [
        ("", {}, "text"),
        (" \t\n\u3000", {}, "text"),
        (None, {}, "text"),
        (b"bytes", {}, "text"),
        ("x", {"limit": 0}, "limit"),
        ("x", {"limit": -3}, "limit"),
        ("x", {"limit": 1.0}, "limit"),
        ("x", {"limit": True}, "limit"),
        ("x", {"limit": None}, "limit"),
        ("x", {"budget": 0}, "budget"),
        ("x", {"budget": "many"}, "budget"),
        ("x", {"servers": "github"}, "servers"),
        ("x", {"servers": None}, "servers"),
        ("x", {"tags": [1]}, "tags"),
        ("x", {"tags": [[]]}, "tags"),
        ("x", {"categories": 7}, "categories"),
        ("x", {"sever": ["a"]}, "sever"),
    ],
)
def test_what_makes_no_query_is_refused_by_name(text: Any, options: Any, option: str) -> None:
    with pytest.raises(InvalidQueryError) as caught:
        query_of(text, options)
    assert caught.value.option == option


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("abcd", 1), ("abcde", 2), ("查询天气", 4), ("AWS 账单", 3), ("ab\N{PUSHPIN}", 2)],
)
def test_tokens_are_estimated_by_letters(text: str, tokens: int) -> None:
    assert tokens_of(text) == tokens


@pytest.mark.parametrize(
    ("tool", "words"),
    [
        (Tool(name="now"), "now()"),
        (Tool(name="now", description="Tell the time. In UTC."), "now(): Tell the time."),
        (Tool(name="now", description="Version 1.5 of it\nMore"), "now(): Version 1.5 of it"),
        (Tool(name="天气", description="查询天气。然后"), "天气(): 查询天气。"),
        (Tool(name="long", description="x" * 1000), f"long(): {'x' * 299}…"),
        (
            Tool(
                name="send",
                input_schema={"properties": {"to": {}, "subject": {}}, "required": ["to"]},
            ),
            "send(to, subject?)",
        ),
        (Tool(name="odd", input_schema={"properties": [], "required": 3}), "odd()"),
        (
            Tool(name="many", input_schema={"properties": {f"p{it}": {} for it in range(25)}}),
            f"many({', '.join(f'p{it}?' for it in range(20))}, …)",
        ),
    ],
    ids=["bare", "sentence", "number", "Chinese", "long", "parameters", "odd", "many"],
)
def test_a_brief_is_one_line(tool: Tool, words: str) -> None:
    assert brief(tool) == words


def test_filters_that_can_be_read_only_once_count_for_every_text() -> None:
    queries = queries_of(["one", "two"], {"servers": (name for name in ["a"])})
    assert [query.servers for query in queries] == [frozenset({"a"})] * 2


@pytest.mark.parametrize("texts", ["email", b"e-mail", 5, None])
def test_a_single_text_where_several_belong_is_refused(texts: Any) -> None:
    with pytest.raises(InvalidQueryError, match="takes several texts"):
        queries_of(texts, {})
