"""Measuring search: the figures against values worked out by hand, and what is wrong with files."""

import json
import math
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegboard import Tool
from pegboard.errors import ConfigError, SearcherNotFoundError
from pegboard.search import Query, SearchEngine
from pegboard.search.evaluation import (
    Definitions,
    Search,
    build_by,
    evaluate,
    percentile,
    quality_of,
    read_evaluation_set,
    read_tools,
)

TOOLS = [
    {"id": "a/search", "name": "search", "description": "Find pages.", "server": "a"},
    {"id": "b/search", "name": "search", "description": "Find people.", "server": "b"},
    {
        "id": "pay",
        "name": "pay",
        "description": "付款",
        "server": "",
        "input_schema": {"type": "object"},
        "tags": ["money"],
    },
]
QUERIES = [
    {"id": "1", "query": "find somebody", "relevant": ["b/search"], "lang": "en"},
    {"id": "2", "query": "付钱\u2028吧", "relevant": ["pay"], "lang": "zh"},
    {"id": "3", "query": "fly to the moon", "relevant": []},
]


def folder_of(
    place: Path, tools: Sequence[object] = TOOLS, queries: Sequence[object] = QUERIES
) -> Path:
    for name, lines in (("tools.jsonl", tools), ("queries.jsonl", queries)):
        written = [it if isinstance(it, str) else json.dumps(it) for it in lines]
        (place / name).write_text("\n".join(written) + "\n", encoding="utf-8")
    return place


def test_a_right_first_hit_is_perfect() -> None:
    quality = quality_of([["a", "b"]], [{"a"}])
    assert quality.recall_1 == quality.recall_10 == quality.mrr_10 == quality.ndcg_10 == 1
    assert quality.empty == 0
    assert quality.refused is None


def test_the_figures_are_those_worked_out_by_hand() -> None:
    quality = quality_of(
        [["x", "a", "y", "b"], [], ["c", "x"]],
        [{"a", "b"}, {"a"}, {"c"}],
    )
    # First: one of two by rank 3, both by rank 5, the first right one at rank 2.
    first = (1 / math.log2(3) + 1 / math.log2(5)) / (1 + 1 / math.log2(3))
    assert quality.recall_1 == pytest.approx((0 + 0 + 1) / 3)
    assert quality.recall_3 == pytest.approx((0.5 + 0 + 1) / 3)
    assert quality.recall_5 == pytest.approx((1 + 0 + 1) / 3)
    assert quality.recall_10 == pytest.approx((1 + 0 + 1) / 3)
    assert quality.mrr_10 == pytest.approx((0.5 + 0 + 1) / 3)
    assert quality.ndcg_10 == pytest.approx((first + 0 + 1) / 3)
    assert quality.empty == pytest.approx(1 / 3)


def test_what_comes_after_the_tenth_hit_does_not_count() -> None:
    answer = [f"x{number}" for number in range(10)] + ["a"]
    quality = quality_of([answer], [{"a"}])
    assert quality.recall_10 == quality.mrr_10 == quality.ndcg_10 == 0
    assert quality.empty == 0


def test_more_right_tools_than_ten_can_still_be_perfect() -> None:
    right = [f"a{number}" for number in range(20)]
    quality = quality_of([right], [set(right)])
    assert quality.ndcg_10 == pytest.approx(1)
    assert quality.recall_10 == pytest.approx(0.5)


def test_a_tool_that_is_named_twice_counts_once() -> None:
    quality = quality_of([["a", "a", "b"]], [{"a", "b"}])
    assert quality.recall_3 == 1
    assert quality.ndcg_10 == pytest.approx(1)


def test_questions_that_nothing_answers_count_as_refused_alone() -> None:
    quality = quality_of([["a"], [], ["x"]], [{"a"}, set[str](), set[str]()])
    assert quality.refused == pytest.approx(0.5)
    assert quality.recall_1 == 1
    assert quality.empty == 0


@given(
    answer=st.lists(st.integers(0, 15), max_size=16),
    right=st.frozensets(st.integers(0, 15), min_size=1),
)
def test_every_figure_is_a_share_and_grows_with_depth(
    answer: list[int], right: frozenset[int]
) -> None:
    quality = quality_of([[str(it) for it in answer]], [{str(it) for it in right}])
    assert 0 <= quality.recall_1 <= quality.recall_3 <= quality.recall_5 <= quality.recall_10 <= 1
    assert 0 <= quality.mrr_10 <= 1
    assert 0 <= quality.ndcg_10 <= 1 + 1e-9
    assert 0 <= quality.empty <= 1


def test_a_percentile_is_one_of_the_values() -> None:
    values = [float(it) for it in range(1, 101)]
    assert percentile(values, 0.5) == 50
    assert percentile(values, 0.95) == 95
    assert percentile([7.0], 0.95) == 7


def test_evaluating_asks_every_question_and_says_what_it_cost(tmp_path: Path) -> None:
    data = read_evaluation_set(folder_of(tmp_path))
    asked: list[str] = []

    def build(tools: Sequence[Tool]) -> Search:
        names = [it.name for it in tools]
        weight = bytearray(300_000)

        def search(text: str) -> list[str]:
            assert weight is not None
            asked.append(text)
            return [] if "moon" in text else names[1:]

        return search

    found = evaluate(data, build, method="mine")
    assert set(asked) == {question.text for question in data.questions}
    assert (found.data, found.method) == (tmp_path.name, "mine")
    assert (found.tools, found.questions) == (3, 3)
    assert found.quality.recall_1 == pytest.approx(0.5)
    assert found.quality.recall_3 == pytest.approx(1)
    assert found.quality.refused == 1
    assert 0 <= found.p50_ms <= found.p95_ms
    assert found.build_seconds >= 0
    assert 300_000 <= found.index_bytes < 400_000


def test_tools_that_share_a_name_are_told_apart_by_their_ids(tmp_path: Path) -> None:
    data = read_evaluation_set(folder_of(tmp_path))
    assert len({tool.name for tool in data.tools}) == 3
    [right] = data.questions[0].relevant
    assert data.ids[right] == "b/search"
    assert next(tool for tool in data.tools if tool.name == right).server == "b"
    assert data.tools[0].name == "search"
    assert data.tools[2].server is None
    assert data.tools[2].tags == ("money",)


def test_a_line_separator_inside_a_text_is_part_of_it(tmp_path: Path) -> None:
    raw = [json.dumps(it, ensure_ascii=False) for it in QUERIES]
    data = read_evaluation_set(folder_of(tmp_path, queries=raw))
    assert data.questions[1].text == "付钱\u2028吧"


def test_without_ids_tools_go_by_their_names(tmp_path: Path) -> None:
    queries = [{"id": "1", "query": "x", "relevant": ["pay"]}]
    data = read_evaluation_set(folder_of(tmp_path, [{"name": "pay"}, {"name": "fly"}], queries))
    assert data.questions[0].relevant == {"pay"}


def test_a_schema_that_nothing_could_be_called_by_is_no_hindrance(tmp_path: Path) -> None:
    broken = {"name": "pay", "input_schema": {"properties": {"sum": {"type": "float"}}}}
    queries = [{"id": "1", "query": "pay", "relevant": ["pay"]}]
    data = read_evaluation_set(folder_of(tmp_path, [broken], queries))
    found = evaluate(data, build_by("regex"), method="regex")
    assert found.quality.recall_1 == 1


def test_a_question_that_cannot_be_asked_counts_as_an_empty_answer(tmp_path: Path) -> None:
    queries = [{"id": "1", "query": "  ", "relevant": ["pay"]}]
    data = read_evaluation_set(folder_of(tmp_path, queries=queries))
    assert evaluate(data, build_by("regex")).quality.empty == 1


def test_an_unknown_method_is_an_error_and_not_an_empty_answer(tmp_path: Path) -> None:
    data = read_evaluation_set(folder_of(tmp_path))
    with pytest.raises(SearcherNotFoundError, match="magic"):
        evaluate(data, build_by("magic"))


def test_definitions_that_come_and_go_are_found_and_lost() -> None:
    definitions = Definitions([Tool(name="pay")])
    engine = SearchEngine(lambda: definitions)

    def found() -> list[str]:
        hits = engine.search(Query(text="pay|fly"), method="regex").hits
        return sorted(hit.tool.name for hit in hits)

    assert found() == ["pay"]
    definitions.add([Tool(name="fly")])
    assert found() == ["fly", "pay"]
    definitions.remove(["pay"])
    assert found() == ["fly"]


def test_windows_files_and_blank_lines_are_read(tmp_path: Path) -> None:
    folder_of(tmp_path)
    path = tmp_path / "tools.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n\r\n"))
    assert [tool.name for tool in read_tools(path)] == ["search", "search.", "pay"]


@pytest.mark.parametrize("missing", ["tools.jsonl", "queries.jsonl"])
def test_a_missing_file_is_named_with_what_is_expected_of_it(tmp_path: Path, missing: str) -> None:
    (folder_of(tmp_path) / missing).unlink()
    with pytest.raises(ConfigError, match="one JSON object per line") as caught:
        read_evaluation_set(tmp_path)
    assert caught.value.path == str(tmp_path / missing)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"id": "x", "name": "x"', "malformed|truncated"),
        ("[]", "Expected `object`"),
        ('{"id": "x"}', "missing required field `name`"),
        ('{"name": "pay"}', "'pay' appears twice"),
        ('{"id": "x", "name": ""}', "must not be empty"),
        ('{"id": "x", "name": 7}', "Expected `str`"),
        ('{"id": "x", "name": "x", "input_schema": []}', "Expected `object"),
        ('{"id": "x", "name": "x", "tags": [1]}', "Expected `str`"),
        ('{"id": "pay", "name": "x"}', "'pay' appears twice"),
        ('{"id": "x", "name": "x", "input_schema": ' + '{"a":' * 20_000, "recursion|deep|trunc"),
    ],
)
def test_a_damaged_tool_is_named_by_its_line(tmp_path: Path, line: str, problem: str) -> None:
    folder_of(tmp_path, tools=[*TOOLS, "", line])
    with pytest.raises(ConfigError, match=f"(?i){problem}") as caught:
        read_evaluation_set(tmp_path)
    assert caught.value.line == 5
    assert caught.value.path == str(tmp_path / "tools.jsonl")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"id": "4", "query": "x", "relevant": ["nobody"]}', "No tool has the id 'nobody'"),
        ('{"id": "4", "query": "x"}', "missing required field `relevant`"),
        ('{"id": "1", "query": "x", "relevant": []}', "'1' appears twice"),
        ('{"id": "4", "query": null, "relevant": []}', "Expected `str`"),
    ],
)
def test_a_damaged_question_is_named_by_its_line(tmp_path: Path, line: str, problem: str) -> None:
    folder_of(tmp_path, queries=[*QUERIES, line])
    with pytest.raises(ConfigError, match=problem) as caught:
        read_evaluation_set(tmp_path)
    assert caught.value.line == 4
    assert caught.value.path == str(tmp_path / "queries.jsonl")


def test_text_that_is_not_utf_8_is_an_error_with_its_line(tmp_path: Path) -> None:
    folder_of(tmp_path)
    path = tmp_path / "queries.jsonl"
    path.write_bytes(path.read_bytes() + b'{"id": "4", "query": "\xff", "relevant": []}\n')
    with pytest.raises(ConfigError, match=r"(?i)utf-8") as caught:
        read_evaluation_set(tmp_path)
    assert caught.value.line == 4


@pytest.mark.parametrize("empty", ["tools.jsonl", "queries.jsonl"])
def test_a_file_without_lines_is_an_error(tmp_path: Path, empty: str) -> None:
    (folder_of(tmp_path) / empty).write_text("\n \n", encoding="utf-8")
    with pytest.raises(ConfigError, match="contains no"):
        read_evaluation_set(tmp_path)
