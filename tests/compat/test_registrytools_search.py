import inspect
import sys
import threading
from abc import ABC
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from pegboard.compat.registrytools import (
    BM25Search,
    EmbeddingSearch,
    EmbeddingSearchLazyLoader,
    HybridSearch,
    JSONStorage,
    RegexSearch,
    SearchAlgorithm,
    SearchMethod,
    ToolMetadata,
    ToolRegistry,
    ToolSearchResult,
    ToolTemperature,
)
from pegboard.compat.registrytools.algorithms import results_of
from pegboard.compat.registrytools.metadata import local_time
from pegboard.errors import (
    InvalidPatternError,
    InvalidQueryError,
    SearchDataError,
)
from pegboard.model import Tool
from pegboard.search import Hit, SearchResponse

METHODS = [*SearchMethod, "hybrid"]
TOOLS = [
    ToolMetadata(
        name="aws_cost_explorer",
        description="Look into the billing and the cost of AWS.",
        tags={"aws", "billing"},
        category="cloud",
        mcp_server="aws",
    ),
    ToolMetadata(name="github.create_pr", description="Create a pull request.", tags={"git"}),
    ToolMetadata(name="send_email", description="发送电子邮件 to a person.", category="mail"),
    ToolMetadata(name="weather", description="查询指定城市的天气预报。", category="nature"),
    ToolMetadata(name="resize_image", description="Change the size of a picture."),
]


def registry_of(*tools: ToolMetadata) -> ToolRegistry:
    registry = ToolRegistry()
    registry.register_many(tool.model_copy(deep=True) for tool in tools or TOOLS)
    return registry


def names(results: list[ToolSearchResult]) -> list[str]:
    return [result.tool_name for result in results]


class CustomSearchAlgorithm(SearchAlgorithm):
    """As the document shows it: two methods and nothing else."""

    def __init__(self) -> None:
        self.indexed: list[list[str]] = []

    def index(self, tools):
        self.indexed.append([tool.name for tool in tools])

    def search(self, query, tools, limit):
        return [
            ToolSearchResult(
                tool_name=tool.name,
                description=tool.description,
                score=len(tool.name) / 100,
                match_reason="length",
            )
            for tool in tools
        ]


@pytest.mark.covers("R-REG-7", "R-REG-8", "R-REG-9")
def test_the_signatures_are_those_of_the_document() -> None:
    def parameters(method: Callable[..., Any]) -> list[str]:
        return list(inspect.signature(method).parameters)[1:]

    assert parameters(ToolRegistry.register) == ["tool"]
    assert parameters(ToolRegistry.search) == ["query", "method", "limit"]
    assert parameters(ToolRegistry.get_tool) == ["name"]
    assert parameters(ToolRegistry.update_usage) == ["tool_name"]
    defaults = inspect.signature(ToolRegistry.search).parameters
    assert defaults["method"].default is SearchMethod.BM25
    assert defaults["limit"].default == 5


@pytest.mark.covers("R-REG-7", "R-REG-9")
def test_a_registered_tool_can_be_had_and_replaced() -> None:
    registry = registry_of()
    assert registry.get_tool("weather") == TOOLS[3]
    assert registry.get_tool("nobody") is None
    registry.register(ToolMetadata(name="weather", description="Something else."))
    found = registry.get_tool("weather")
    assert found is not None
    assert found.description == "Something else."
    assert registry.tool_count == 5
    assert registry.get_tools(["send_email", "nobody"]) == {"send_email": TOOLS[2]}


@pytest.mark.covers("R-REG-7", "R-REG-33")
@pytest.mark.parametrize(
    "odd", [{"name": ""}, {"name": "a\nb"}, {"input_schema": {"type": "no such type"}}], ids=ascii
)
def test_a_registry_keeps_what_no_server_may_offer_and_finds_the_rest(odd: dict[str, Any]) -> None:
    tool = ToolMetadata.model_validate({"name": "odd", "description": "", **odd})
    registry = registry_of(*TOOLS, tool)
    assert registry.tool_count == 6
    assert registry.get_tool(tool.name) == tool
    for method in ("regex", "bm25", "embedding", "hybrid"):
        assert names(registry.search("send_email", method))[0] == "send_email"
        registry.search_hot_warm("send_email", method)


@pytest.mark.covers("R-REG-8", "R-REG-12", "R-REG-22", "R-REG-24")
@pytest.mark.parametrize("method", METHODS)
def test_every_method_finds_and_orders_by_score(method: SearchMethod | str) -> None:
    results = registry_of().search("aws cost explorer", method)
    assert all(isinstance(result, ToolSearchResult) for result in results)
    assert results[0].tool_name == "aws_cost_explorer"
    assert results[0].description == TOOLS[0].description
    scores = [result.score for result in results]
    assert scores == sorted(scores, reverse=True)
    assert all(0.0 <= score <= 1.0 for score in scores)
    assert len(registry_of().search("a", method, 1)) <= 1


@pytest.mark.covers("R-REG-8", "R-REG-12")
def test_the_example_of_the_document_works_by_default() -> None:
    assert names(registry_of().search("check aws billing cost"))[0] == "aws_cost_explorer"


@pytest.mark.covers("R-REG-8", "R-REG-12")
def test_each_method_finds_by_what_it_compares() -> None:
    registry = registry_of()
    by_name, by_meaning = "^aws_.*_explorer$", "forecast of rain"
    assert names(registry.search(by_name, "regex")) == ["aws_cost_explorer"]
    assert names(registry.search(by_meaning, "regex")) == []
    assert names(registry.search(by_meaning, "bm25")) == []
    assert names(registry.search(by_meaning, "embedding"))[0] == "weather"


@pytest.mark.covers("R-REG-15", "R-REG-41")
@pytest.mark.parametrize("method", ["bm25", "embedding", "hybrid", "regex"])
def test_chinese_is_searched_as_english_is(method: str) -> None:
    registry = registry_of()
    assert names(registry.search("天气预报", method))[0] == "weather"
    assert names(registry.search("发送邮件", "bm25"))[0] == "send_email"


@pytest.mark.covers("R-REG-22")
def test_a_result_has_the_fields_of_the_document() -> None:
    assert list(ToolSearchResult.model_fields) == [
        *("tool_name", "description", "score", "match_reason")
    ]
    with pytest.raises(ValidationError):
        ToolSearchResult(tool_name="a", description="", score=1.5, match_reason="")


@pytest.mark.covers("R-REG-24")
def test_scores_fall_even_where_confidence_does_not() -> None:
    hits = tuple(
        Hit(tool=Tool(name=name), score=1.0, confidence=confidence)
        for name, confidence in (("a", 0.6), ("b", 0.9), ("c", 0.2))
    )
    results = results_of(SearchResponse(hits=hits))
    assert [(it.tool_name, it.score) for it in results] == [("a", 0.6), ("b", 0.6), ("c", 0.2)]


@pytest.mark.covers("R-REG-23")
@pytest.mark.parametrize("method", ["regex", "bm25"])
def test_the_reason_names_the_field_that_matched(method: str) -> None:
    registry = registry_of()

    def reason(query: str) -> str:
        return registry.search(query, method)[0].match_reason

    assert reason("resize").startswith("name")
    assert "description" in reason("picture")
    assert "tag" in reason("billing")


@pytest.mark.covers("R-REG-13")
def test_an_algorithm_is_abstract_and_has_the_two_methods_of_the_document() -> None:
    assert issubclass(SearchAlgorithm, ABC)
    assert SearchAlgorithm.__abstractmethods__ == {"index", "search"}
    assert list(inspect.signature(SearchAlgorithm.index).parameters) == ["self", "tools"]
    parameters = list(inspect.signature(SearchAlgorithm.search).parameters)
    assert parameters == ["self", "query", "tools", "limit"]


@pytest.mark.covers("R-REG-16", "R-REG-31", "X-REG-10")
def test_an_algorithm_of_ones_own_is_indexed_and_its_results_stay_as_they_are() -> None:
    registry, mine = registry_of(), CustomSearchAlgorithm()
    registry.register_searcher("mine", mine)
    assert registry.get_searcher("mine") is mine
    assert names(registry.search("anything", "mine", 3)) == [tool.name for tool in TOOLS]
    registry.search("something", "mine")
    assert len(mine.indexed) == 1
    registry.unregister("aws_cost_explorer")
    assert names(registry.search("anything", "mine", 1))[0] == "github.create_pr"
    assert len(mine.indexed) == 2
    assert "aws_cost_explorer" not in mine.indexed[-1]
    registry.rebuild_indexes()
    assert len(mine.indexed) == 3
    assert not mine.is_indexed()


@pytest.mark.covers("R-REG-16", "R-REG-30")
def test_an_algorithm_of_ones_own_gets_the_hot_and_warm_tools() -> None:
    registry, mine = registry_of(), CustomSearchAlgorithm()
    registry.register_searcher("mine", mine)
    assert registry.search_hot_warm("anything", "mine") == []
    for _ in range(3):
        registry.update_usage("weather")
    assert names(registry.search_hot_warm("anything", "mine")) == ["weather"]
    assert mine.indexed == [["weather"]]
    registry.search("anything", "mine")
    assert len(mine.indexed[-1]) == 5


@pytest.mark.covers("R-REG-16")
def test_an_algorithm_of_ones_own_takes_the_place_of_a_known_one() -> None:
    registry = registry_of()
    assert registry.get_searcher(SearchMethod.BM25) is None
    registry.register_searcher(SearchMethod.BM25, CustomSearchAlgorithm())
    assert registry.search("anything")[0].match_reason == "length"
    with pytest.raises(InvalidQueryError, match=r"搜索方法 regex 未注册.*only for 'bm25'"):
        registry.search("anything", SearchMethod.REGEX)


@pytest.mark.covers("X-REG-10")
def test_an_algorithm_for_another_method_is_refused() -> None:
    registry = registry_of()
    with pytest.raises(ValueError, match=r"搜索器类型不匹配.*'regex', not 'bm25'"):
        registry.register_searcher(SearchMethod.BM25, RegexSearch())
    assert registry.get_searcher(SearchMethod.BM25) is None


@pytest.mark.covers("R-REG-24")
@pytest.mark.parametrize("kind", [RegexSearch, BM25Search, EmbeddingSearch, HybridSearch])
def test_a_registered_algorithm_of_ours_orders_by_score_and_heeds_the_limit(
    kind: type[SearchAlgorithm],
) -> None:
    registry, algorithm = registry_of(), kind()
    registry.register_searcher(algorithm.method or "", algorithm)
    for limit in (0, 1, 3, 100):
        results = registry.search("email|cost", algorithm.method or "", limit)
        scores = [result.score for result in results]
        assert scores == sorted(scores, reverse=True)
        assert len(scores) <= limit
        assert limit == 0 or scores[0] == 1.0


@pytest.mark.covers("R-REG-15", "R-REG-41")
@pytest.mark.parametrize("kind", [RegexSearch, BM25Search, EmbeddingSearch, HybridSearch])
def test_a_registered_algorithm_of_ours_finds_chinese(kind: type[SearchAlgorithm]) -> None:
    tools = [
        *TOOLS,
        ToolMetadata(name="a", description="查询天气信息"),
        ToolMetadata(name="b", description="股票价格"),
    ]
    assert names(kind().search("天气", tools, 5))[0] in ("a", "weather")
    assert names(kind().search("股票", tools, 5))[0] == "b"


@pytest.mark.covers("R-REG-13", "R-REG-31", "R-REG-32")
@pytest.mark.parametrize("kind", [RegexSearch, BM25Search, EmbeddingSearch, HybridSearch])
def test_our_algorithms_work_alone_and_follow_what_they_are_given(
    kind: type[SearchAlgorithm],
) -> None:
    algorithm = kind()
    assert not algorithm.is_indexed()
    assert names(algorithm.search("send_email", TOOLS, 3))[0] == "send_email"
    assert algorithm.is_indexed()
    assert "send_email" not in names(algorithm.search("send_email", TOOLS[:2], 3))
    algorithm.index(TOOLS)
    changed = TOOLS[2].model_copy(update={"description": "Feed the cat."})
    [first, *_] = algorithm.search("send_email", [changed], 3)
    assert first.description == "Feed the cat."
    assert algorithm.search("send_email", [], 3) == []
    algorithm.index_layered(TOOLS[:1], TOOLS[1:2], TOOLS[2:])
    assert names(algorithm.search("send_email", TOOLS, 1)) == ["send_email"]


@pytest.mark.parametrize("kind", [BM25Search, EmbeddingSearch, HybridSearch])
def test_words_that_no_tool_has_leave_the_tools_in_their_order(kind: Any) -> None:
    algorithm = kind()
    for query in ("", " ", "\n"):
        results = algorithm.search(query, TOOLS[:2], 5)
        assert len(results) == 2
        assert algorithm.get_index_size() == 2
    assert [(it.tool_name, it.score) for it in algorithm.search("", TOOLS, 2)] == [
        ("aws_cost_explorer", 1.0),
        ("github.create_pr", 1.0),
    ]


def test_an_embedding_search_tells_the_size_of_its_vectors() -> None:
    search = EmbeddingSearch("any model")
    assert (search.model_name, search.get_embedding_dimension()) == ("any model", None)
    search.index(TOOLS)
    assert search.get_index_size() == 5
    assert (search.get_embedding_dimension() or 0) > 50
    search.unload_model()
    assert (search.get_index_size(), search.get_embedding_dimension()) == (0, None)
    assert isinstance(EmbeddingSearchLazyLoader(), EmbeddingSearch)


@pytest.mark.covers("R-REG-36")
def test_a_regex_that_could_explode_is_refused_and_an_invalid_one_finds_nothing() -> None:
    evil = ToolMetadata(name="evil", description="a" * 4000 + "!")
    search = RegexSearch()
    assert names(search.search("(a+)+!", [*TOOLS, evil], 5)) == ["evil"]
    assert search.search("(a|b", TOOLS, 5) == []
    for pattern in ("a(?=b)", r"(a)\1", "x" * 1001):
        with pytest.raises(InvalidPatternError):
            search.search(pattern, TOOLS, 5)


@pytest.mark.covers("R-REG-11", "R-REG-31", "R-REG-32")
def test_what_changes_is_found_at_once() -> None:
    registry = registry_of()
    registry.search("weather")
    new = ToolMetadata(name="book_flight", description="Book a flight.")
    registry.register(new)
    assert names(registry.search("book a flight"))[0] == "book_flight"
    registry.register(ToolMetadata(name="resize_image", description="Rent a car."))
    assert names(registry.search("rent a car"))[0] == "resize_image"
    registry.unregister("book_flight")
    assert "book_flight" not in names(registry.search("book a flight"))
    assert not registry.unregister("book_flight")
    registry.clear()
    assert registry.is_empty()
    assert registry.search("weather") == []


@pytest.mark.covers("R-REG-17")
def test_without_what_embedding_needs_everything_else_works(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PEGBOARD_WORD_TABLE", str(tmp_path / "nothing"))
    registry = registry_of()
    for method in ("regex", "bm25"):
        assert names(registry.search("send email", method))[0] == "send_email"
    with pytest.raises(SearchDataError):
        registry.search("send email", "embedding")
    assert names(registry.search("weather", "bm25"))[0] == "weather"


@pytest.mark.covers("R-REG-10", "R-REG-11", "X-REG-10")
def test_use_is_counted_and_can_be_asked_for() -> None:
    before = local_time()
    used = TOOLS[3].model_copy(update={"use_frequency": 1, "last_used": before - timedelta(1)})
    registry = registry_of(*TOOLS[:3], used)
    assert registry.update_usage("weather")
    assert not registry.update_usage("nobody")
    found = registry.get_tool("weather")
    assert found is not None
    assert found.use_frequency == 2
    assert found.last_used is not None
    assert found.last_used >= before
    assert registry.get_usage_stats()["weather"] == 2
    assert [tool.name for tool in registry.get_most_used(1)] == ["weather"]


@pytest.mark.covers("R-REG-10")
def test_no_use_is_lost_when_threads_count_at_once() -> None:
    registry = registry_of()
    threads = [
        threading.Thread(target=lambda: [registry.update_usage("weather") for _ in range(200)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert registry.get_usage_stats()["weather"] == 800


@pytest.mark.covers("R-REG-30")
def test_tools_that_are_used_come_before_others_that_fit_alike() -> None:
    now = datetime.now(UTC)
    one, two, old = (ToolMetadata(name=f"report_{it}qx", description="Make.") for it in "zjw")
    two.use_frequency, two.last_used = 20, now
    old.use_frequency, old.last_used = 20, now - timedelta(days=365)
    registry = registry_of(one, two, old)
    assert names(registry.search("report", "regex"))[0] == two.name
    assert names(registry.search_hot_warm("report", "regex")) == [two.name, old.name]
    registry.update_usage(two.name)
    assert names(registry.search_hot_warm("report", "regex")) == [two.name]


@pytest.mark.covers("X-REG-4")
def test_a_moment_with_a_time_zone_counts_as_idle_too() -> None:
    moment = datetime.now(UTC) - timedelta(days=31)
    tool = ToolMetadata(name="a", description="", use_frequency=20, last_used=moment)
    registry = registry_of(tool, *TOOLS)
    for _ in range(3):
        registry.update_usage("weather")
    found = registry.get_tool("a")
    assert found is not None
    assert found.last_used == moment
    assert found.temperature is ToolTemperature.WARM
    assert found.usage.last_used == moment


@pytest.mark.covers("X-REG-10")
def test_categories_are_listed() -> None:
    registry = registry_of()
    assert registry.list_categories() == ["cloud", "mail", "nature"]
    assert registry.category_count == 3
    assert [tool.name for tool in registry.list_tools("mail")] == ["send_email"]
    assert len(registry.list_tools()) == 5


@pytest.mark.covers("R-REG-30")
def test_hot_tools_are_taken_from_a_storage(tmp_path: Path) -> None:
    registry = ToolRegistry()
    with JSONStorage(tmp_path / "tools.json") as storage:
        hot = TOOLS[0].model_copy(update={"use_frequency": 50, "last_used": datetime.now(UTC)})
        storage.save_many([hot, *TOOLS[1:]])
        assert registry.load_hot_tools(storage) == 1
    assert [tool.name for tool in registry.list_tools()] == ["aws_cost_explorer"]


@pytest.mark.covers("R-REG-35", "R-REG-36")
@pytest.mark.parametrize(
    ("query", "method", "limit"),
    [
        ("", "bm25", 5),
        (" \n", "regex", 5),
        (None, "bm25", 5),
        ("weather", "bm25", 0),
        ("weather", "bm25", -1),
        ("weather", "bm25", 2.5),
        ("weather", "bm25", True),
        ("weather", "magic", 5),
        ("weather", None, 5),
    ],
)
def test_what_cannot_be_searched_for_is_a_value_error(query: Any, method: Any, limit: Any) -> None:
    with pytest.raises(InvalidQueryError) as caught:
        registry_of().search(query, method, limit)
    assert isinstance(caught.value, ValueError)


@pytest.mark.covers("R-REG-12", "R-REG-36")
def test_a_pattern_cannot_hang_the_registry() -> None:
    registry = registry_of(*TOOLS, ToolMetadata(name="evil", description="a" * 4000 + "!"))
    assert registry.search("(a+)+$", "regex") is not None
    with pytest.raises(InvalidPatternError):
        registry.search("(a|b", "regex")


@pytest.mark.covers("R-REG-34")
def test_many_queries_are_answered_in_their_order() -> None:
    answers = registry_of().search_many(["send email", "weather"], "regex")
    assert [names(it)[0] for it in answers] == ["send_email", "weather"]


@pytest.mark.covers("X-REG-9")
@pytest.mark.parametrize("device", ["cpu", "gpu:0", "cuda:1", "auto", "gpu"])
def test_embedding_loads_late_takes_any_device_and_can_be_unloaded(device: str) -> None:
    search = EmbeddingSearch(device=device)
    assert names(search.search("邮件", TOOLS, 5))[0] == "send_email"
    search.unload_model()
    assert names(search.search("forecast of rain", TOOLS, 5))[0] == "weather"


@pytest.mark.covers("X-REG-9")
def test_a_device_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="toaster"):
        EmbeddingSearch(device="toaster")


def test_each_of_two_threads_finds_what_it_searches_among() -> None:
    algorithm = RegexSearch()
    barrier = threading.Barrier(2)

    def search(tool: ToolMetadata) -> set[tuple[str, ...]]:
        barrier.wait(5)
        found = (algorithm.search("send", [tool], 5) for _ in range(400))
        return {tuple(names(it)) for it in found}

    tools = [ToolMetadata(name=f"send_{it}", description="Send it.") for it in ("mail", "song")]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(2) as pool:
            found = list(pool.map(search, tools))
    finally:
        sys.setswitchinterval(before)
    assert found == [{("send_mail",)}, {("send_song",)}]
