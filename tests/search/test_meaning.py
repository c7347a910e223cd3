"""What tools and queries mean, and how long requests are cut."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pegboard import Tool
from pegboard.search.text.fields import read_text
from pegboard.search.text.words import clauses_of, han_words
from pegboard.search.vectors.meaning import open_meaning

MEANING = open_meaning()
TOOLS = [
    Tool(name="send_email", description="Send an email message to a person."),
    Tool(name="get_weather", description="Tell the weather forecast of a city."),
    Tool(name="qqzz", description=""),
]


def vectors(*tools: Tool) -> np.ndarray:
    return MEANING.of_tools([read_text(tool) for tool in tools])


def test_tools_are_unit_rows_and_those_without_a_known_word_are_zero() -> None:
    rows = vectors(*TOOLS)
    assert np.linalg.norm(rows, axis=1) == pytest.approx([1, 1, 0], abs=1e-5)


def test_a_tool_means_the_same_whichever_tools_it_is_read_with() -> None:
    many = [Tool(name=f"tool_{n}", description="word " * (n % 50)) for n in range(300)]
    together = vectors(*many, *TOOLS)[300:]
    assert np.array_equal(together, np.concatenate([vectors(tool) for tool in TOOLS]))


@pytest.mark.parametrize("text", ["mail my colleague", "给同事发邮件", "E-Mail an einen person"])
def test_a_query_is_nearest_to_the_tool_that_does_it(text: str) -> None:
    query = MEANING.of_query(text).vectors[0]
    assert int(np.argmax(vectors(*TOOLS) @ query)) == 0


def test_a_long_request_is_cut_into_clauses() -> None:
    text = "Tell me the weather in Oslo. Then send an email to Anna, and book a table for two."
    assert clauses_of(text) == [
        "Tell me the weather in Oslo.",
        "send an email to Anna",
        "book a table for two.",
    ]
    assert len(MEANING.of_query(text).vectors) == 4
    assert clauses_of("send an email") == []
    assert len(MEANING.of_query("send an email").vectors) == 1
    assert clauses_of("查询北京的天气，然后给小王发邮件") == [  # noqa: RUF001 - Chinese
        "查询北京的天气",
        "给小王发邮件",
    ]


def test_dates_and_names_say_less_than_what_is_to_be_done() -> None:
    weight = {it.plain: it.weight for it in MEANING.of_query("email paris tomorrow monday").words}
    assert weight["email"] > max(weight["paris"], weight["tomorrow"], weight["monday"])


def test_chinese_is_cut_into_the_longest_known_words() -> None:
    assert list(han_words("发送邮件")) == ["发送", "邮件"]
    assert list(han_words("\u3400")) == ["\u3400"]


@settings(max_examples=60)
@given(st.text(max_size=300))
def test_any_text_has_a_meaning_or_none_but_never_an_error(text: str) -> None:
    meant = MEANING.of_query(text)
    norms = np.linalg.norm(meant.vectors, axis=1)
    assert np.all(np.isfinite(norms))
    assert norms == pytest.approx(np.ones(len(norms)), abs=1e-4)
    assert bool(meant.words) == bool(len(meant.vectors))


def test_a_query_of_a_megabyte_is_read_as_far_as_it_helps() -> None:
    assert len(MEANING.of_query("send an email to anna. " * 50_000).vectors) <= 13
