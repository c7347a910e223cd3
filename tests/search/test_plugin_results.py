import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pegboard import Registry, Tool
from pegboard.errors import InvalidQueryError
from pegboard.model import CatalogChange
from pegboard.search import Hit, Query, SearchResponse

TOOLS = [
    Tool(name=f"mail_{it}", server=f"s{it % 3}", category=f"c{it % 2}", tags=(f"t{it % 2}",))
    for it in range(12)
]


class Careless:
    """Answers with whatever it is told to, and cares for nothing else."""

    def __init__(self, answer: Callable[[list[Tool]], Any]) -> None:
        self.answer = answer
        self.tools: list[Tool] = []

    def apply(self, change: CatalogChange) -> None:
        self.tools.extend(change.added)

    def search(self, query: Query) -> SearchResponse:
        return self.answer(self.tools)

    def search_many(self, queries: Sequence[Query]) -> list[SearchResponse]:
        return [self.search(query) for query in queries]


def hit(tool: Tool, *, score: Any = 1.0, confidence: Any = 0.5) -> Hit:
    return Hit(tool=tool, score=score, confidence=confidence)


def all_of(tools: list[Tool]) -> SearchResponse:
    return SearchResponse(hits=tuple(map(hit, tools)))


def registry_with(answer: Callable[[list[Tool]], Any]) -> Registry:
    registry = Registry()
    registry.register_many(TOOLS[:6], groups=["first"])
    registry.register_many(TOOLS[6:])
    registry.add_searcher("careless", lambda: Careless(answer))
    return registry


@pytest.mark.parametrize(
    ("options", "admitted"),
    [
        ({}, range(12)),
        ({"servers": ["s1"]}, (1, 4, 7, 10)),
        ({"categories": ["c0"]}, (0, 2, 4, 6, 8, 10)),
        ({"tags": ["t1"]}, (1, 3, 5, 7, 9, 11)),
        ({"groups": ["first"]}, range(6)),
        ({"groups": ["first"], "servers": ["s2"]}, (2, 5)),
    ],
)
@pytest.mark.parametrize("limit", [2, 100])
def test_a_searcher_that_ignores_filters_and_limits_shows_nothing_it_should_not(
    options: Any, admitted: Sequence[int], limit: int
) -> None:
    answers = registry_with(all_of).search_many(
        ["post", "letter"], method="careless", limit=limit, **options
    )
    expected = [f"mail_{it}" for it in admitted][:limit]
    assert [[it.tool.name for it in answer.hits] for answer in answers] == [expected, expected]


def test_duplicates_and_tools_that_are_not_on_the_board_are_left_out() -> None:
    registry = registry_with(
        lambda tools: SearchResponse(hits=(hit(Tool(name="ghost")), hit(tools[1]), hit(tools[1])))
    )
    assert [it.tool for it in registry.search("x", method="careless").hits] == [TOOLS[1]]


def test_a_tool_counts_as_it_is_on_the_board() -> None:
    forged = Tool(name="mail_0", server="s1")
    registry = registry_with(lambda _: SearchResponse(hits=(hit(forged),)))
    assert registry.search("x", method="careless").hits[0].tool.server == "s0"
    assert not registry.search("x", method="careless", servers=["s1"]).hits


@pytest.mark.parametrize(
    ("score", "confidence", "shown"),
    [
        (math.nan, math.nan, (0.0, 0.0)),
        (math.inf, 7, (0.0, 1.0)),
        (3, -0.5, (3.0, 0.0)),
        (2.0, 0.25, (2.0, 0.25)),
    ],
)
def test_scores_are_numbers_and_confidences_are_between_none_and_one(
    score: float, confidence: float, shown: tuple[float, float]
) -> None:
    registry = registry_with(
        lambda tools: SearchResponse(hits=(hit(tools[0], score=score, confidence=confidence),))
    )
    [found] = registry.search("x", method="careless").hits
    assert (found.score, found.confidence) == shown


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "it returned nothing, not a `SearchResponse`"),
        ([1], "it returned a 'list'"),
        (SearchResponse(hits=5), "the hits of its response are a 'int'"),  # pyright: ignore[reportArgumentType]
        (SearchResponse(hits=(1,)), "a hit of its response is not a `Hit`"),  # pyright: ignore[reportArgumentType]
        (
            SearchResponse(hits=(hit(TOOLS[0], score="high"),)),
            "confidence of 'mail_0' is not a number",
        ),
        (SearchResponse(hints=None), "the hints of its response are nothing"),  # pyright: ignore[reportArgumentType]
        (SearchResponse(hints="mail"), "the hints of its response are a 'str'"),  # pyright: ignore[reportArgumentType]
        (SearchResponse(hints=(1,)), "a hint of its response is not a string"),  # pyright: ignore[reportArgumentType]
    ],
)
def test_an_answer_of_another_shape_is_refused_by_the_name_of_the_method(
    answer: Any, words: str
) -> None:
    with pytest.raises(InvalidQueryError, match="The search method 'careless'") as caught:
        registry_with(lambda _: answer).search("x", method="careless")
    assert words in str(caught.value)
    assert caught.value.option == "method"


@pytest.mark.parametrize("answers", [[], [SearchResponse()] * 3, None])
def test_an_answer_is_needed_for_each_query(answers: Any) -> None:
    class Short(Careless):
        def search_many(self, queries: Sequence[Query]) -> list[SearchResponse]:
            return answers

    registry = Registry()
    registry.register_many(TOOLS)
    registry.add_searcher("short", lambda: Short(all_of))
    with pytest.raises(InvalidQueryError, match=r"The search method 'short'.*`search_many`"):
        registry.search_many(["a", "b"], method="short")


def test_a_searcher_where_its_maker_belongs_is_refused_in_words() -> None:
    searcher: Any = Careless(all_of)
    with pytest.raises(TypeError, match=r"not a 'Careless'. Write `lambda"):
        Registry().add_searcher("mine", searcher)
