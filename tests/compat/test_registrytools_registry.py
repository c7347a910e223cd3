"""What users of RegistryTools rely on beyond its document; `tests/oracles` asks the original."""

import json
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from pegboard.compat.registrytools import (
    HOT_TOOL_INACTIVE_DAYS,
    HOT_TOOL_THRESHOLD,
    MAX_HOT_TOOLS_PRELOAD,
    SUPPORTED_SEARCH_METHODS,
    WARM_TOOL_INACTIVE_DAYS,
    WARM_TOOL_THRESHOLD,
    BM25Search,
    EmbeddingSearch,
    RegexSearch,
    SearchMethod,
    StorageBackend,
    ToolMetadata,
    ToolRegistry,
    ToolSearchResult,
    ToolTemperature,
)
from pegboard.compat.registrytools.bm25_okapi import tokens_of
from pegboard.compat.registrytools.metadata import local_time

HOT, WARM, COLD = ToolTemperature


def tool(name: str, uses: int = 0, days: int | None = None, **fields: Any) -> ToolMetadata:
    last_used = None if days is None else local_time() - timedelta(days=days, minutes=1)
    given = {"name": name, "description": "x", "use_frequency": uses, "last_used": last_used}
    return ToolMetadata.model_validate({**given, **fields})


def registry_of(*tools: ToolMetadata) -> ToolRegistry:
    registry = ToolRegistry()
    registry.register_searcher(SearchMethod.REGEX, RegexSearch())
    registry.register_searcher(SearchMethod.BM25, BM25Search())
    registry.register_many(tools)
    return registry


def scores(results: list[ToolSearchResult]) -> dict[str, float]:
    return {result.tool_name: result.score for result in results}


@contextmanager
def time_zone(name: str) -> Generator[None]:
    before = os.environ.get("TZ")
    os.environ["TZ"] = name
    time.tzset()
    try:
        yield
    finally:
        os.environ.pop("TZ")
        if before is not None:
            os.environ["TZ"] = before
        time.tzset()


def test_the_constants_are_those_that_users_import() -> None:
    assert (HOT_TOOL_THRESHOLD, WARM_TOOL_THRESHOLD) == (10, 3)
    assert (HOT_TOOL_INACTIVE_DAYS, WARM_TOOL_INACTIVE_DAYS) == (30, 60)
    assert MAX_HOT_TOOLS_PRELOAD == 100
    assert list(SearchMethod) == SUPPORTED_SEARCH_METHODS
    assert [str(it) for it in StorageBackend] == ["StorageBackend.JSON", "StorageBackend.SQLITE"]
    assert str(ToolTemperature.HOT) == "ToolTemperature.HOT"
    assert str(SearchMethod.BM25) == "SearchMethod.BM25"


@pytest.mark.covers("X-REG-4")
@pytest.mark.parametrize(
    ("uses", "temperature"), [(-1, COLD), (0, COLD), (2, COLD), (3, WARM), (9, WARM), (10, HOT)]
)
def test_a_registry_sets_the_temperature_by_the_uses(
    uses: int, temperature: ToolTemperature
) -> None:
    given = tool("a", uses, temperature="hot")
    assert given.temperature is HOT
    registry_of(given)
    assert given.temperature is temperature
    assert given.model_dump()["temperature"] is temperature
    with pytest.raises(ValidationError):
        tool("a", temperature="lukewarm")


@pytest.mark.covers("X-REG-4", "R-REG-30")
def test_idle_tools_cool_down_when_a_warm_one_is_used() -> None:
    expected = {"hot29": HOT, "hot30": WARM, "hot60": COLD, "warm59": WARM, "warm60": COLD}
    days = {name: int(name[-2:]) for name in expected}
    tools = [tool(name, 50 if name < "i" else 5, days[name]) for name in expected]
    registry = registry_of(*tools, tool("never", 50), tool("busy", 2), tool("other"))
    registry.update_usage("other")
    assert [it.temperature for it in tools] == [HOT, HOT, HOT, WARM, WARM]
    registry.update_usage("busy")
    assert {it.name: it.temperature for it in tools} == expected
    found = registry.search_hot_warm("x", SearchMethod.REGEX, 99)
    assert list(scores(found)) == ["hot29", "never", "warm59", "busy", "hot30"]


@pytest.mark.covers("R-REG-10")
@pytest.mark.parametrize("zone", ["UTC", "Asia/Shanghai", "America/New_York"])
def test_use_sets_local_time_without_a_time_zone(zone: str) -> None:
    with time_zone(zone):
        registry = registry_of(tool("a"))
        before = datetime.now()  # noqa: DTZ005 - local time is the point
        registry.update_usage("a")
        found = registry.get_tool("a")
        assert found is not None
        assert found.last_used is not None
        assert found.last_used.tzinfo is None
        assert before <= found.last_used <= datetime.now()  # noqa: DTZ005 - as above
        assert json.loads(found.model_dump_json())["last_used"] == found.last_used.isoformat()
        assert found.usage.last_used == found.last_used.astimezone()


@pytest.mark.covers("X-REG-10")
def test_a_category_stays_until_the_registry_is_cleared() -> None:
    registry = registry_of(tool("a", category="one"), tool("b", category=""), tool("c"))
    registry.unregister("a")
    assert (registry.list_categories(), registry.category_count) == (["one"], 1)
    assert registry.list_tools("one") == []
    registry.clear()
    assert (registry.list_categories(), registry.category_count) == ([], 0)
    assert registry.search_hot_warm("a") == []


def test_a_regex_is_worth_most_as_a_whole_name() -> None:
    tools = [
        tool("a", tags={"say cat"}),
        tool("b", tags={"cat"}),
        tool("c", description="a cat"),
        tool("d", description="cat"),
        tool("my_cat"),
        tool("cat"),
        tool("nothing"),
    ]
    found = scores(RegexSearch().search("cat", tools, 9))
    assert list(found) == ["cat", "my_cat", "d", "b", "c", "a"]
    worths = [1.0, 0.8, 0.6, 0.5, 0.4, 0.3]
    assert list(found.values()) == pytest.approx([(it - 0.3) / 0.7 for it in worths])


@pytest.mark.parametrize(
    ("pattern", "finds"),
    [
        ("CAT", True),
        ("C++at", True),
        (r"\w+猫", True),
        (r"[\w]猫\d$", True),
        (r"[\u4e00-\u9fff]", True),
        (r"\++", False),
        (r"\Acat", True),
        ("dog|", True),
        ("cat dog", False),
        ("(", False),
    ],
)
def test_a_regex_is_read_as_python_reads_it(pattern: str, *, finds: bool) -> None:
    found = RegexSearch().search(pattern, [tool("cat 大猫7")], 5)
    assert bool(found) is finds


def test_a_regex_can_heed_capital_letters() -> None:
    tools = [tool("Cat"), tool("cat")]
    assert list(scores(RegexSearch(case_sensitive=True).search("cat", tools, 5))) == ["cat"]
    assert len(RegexSearch().search("cat", tools, 5)) == 2


def test_the_options_of_bm25_change_the_ranking() -> None:
    words = ("report " * 6 + "of many things that are long", "report", "x", "y", "z")
    tools = [tool(str(place), description=it) for place, it in enumerate(words)]
    assert list(scores(BM25Search().search("report", tools, 2))) == ["0", "1"]
    assert list(scores(BM25Search(b=1.0).search("report", tools, 2))) == ["1", "0"]
    assert scores(BM25Search().search("nothing", tools, 2)) == {"0": 1.0, "1": 1.0}


@pytest.mark.covers("R-REG-15")
def test_bm25_counts_words_signs_and_chinese() -> None:
    assert list(tokens_of("a.b_c 1.5% C++!")) == [
        "a",
        ".",
        "b",
        "_",
        "c",
        " ",
        "1.5%",
        " ",
        "C++",
        "!",
    ]
    assert list(tokens_of("查询天气 now")) == ["查询", "天气", " ", "now"]


@pytest.mark.covers("X-REG-9")
def test_an_unknown_device_in_the_environment_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("REGISTRYTOOLS_DEVICE", "cuda:0")
    assert EmbeddingSearch().device == "cuda:0"
    assert caplog.records == []
    monkeypatch.setenv("REGISTRYTOOLS_DEVICE", "toaster")
    assert EmbeddingSearch().device == "cpu"
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_an_object_with_a_search_is_an_algorithm() -> None:
    class Duck:
        method = SearchMethod.EMBEDDING

        def search(self, query: str, tools: list[ToolMetadata], limit: int) -> Any:
            return [query, len(tools), limit]

    registry = registry_of(tool("a"))
    registry.register_searcher(SearchMethod.EMBEDDING, Duck())  # pyright: ignore[reportArgumentType]
    assert registry.search("quack", SearchMethod.EMBEDDING) == ["quack", 1, 5]
