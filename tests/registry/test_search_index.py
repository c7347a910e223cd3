"""The index that is kept beside a store."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from pegboard import Registry, Tool
from pegboard.search import SearchResponse
from pegboard.search.text.fields import ToolText
from pegboard.search.text.tool_runs import ToolRuns

TOOLS = [Tool(name=f"report_{it}", description=f"Make report number {it}.") for it in range(600)]
KEPT = {"bm25": "tools.db.search-words", "hybrid": "tools.db.search"}


def names(answer: SearchResponse) -> list[str]:
    return [hit.tool.name for hit in answer.hits]


@pytest.mark.parametrize("method", KEPT)
def test_a_registry_that_is_closed_leaves_its_index_for_the_next(
    method: str, tmp_path: Path
) -> None:
    with Registry(storage=tmp_path / "tools.db") as registry:
        registry.register_many(TOOLS)
        registry.search("report", method=method)
        registry.register(Tool(name="book_flight", description="Book a flight."))
        registry.search("report", method=method)
    assert KEPT[method] in [it.name for it in tmp_path.iterdir()]
    with Registry(storage=tmp_path / "tools.db") as registry:
        registry.unregister("report_7")
        assert names(registry.search("book a flight", method=method))[0] == "book_flight"
        assert "report_7" not in names(registry.search("report 7", method=method, limit=600))


def test_a_damaged_index_is_made_anew(tmp_path: Path) -> None:
    for content in (b"", b"nonsense" * 1000):
        (tmp_path / "tools.db.search-words").write_bytes(content)
        with Registry(storage=tmp_path / "tools.db") as registry:
            registry.register_many(TOOLS, on_conflict="override")
            assert names(registry.search("report_7", method="bm25", limit=1)) == ["report_7"]


def test_methods_share_one_index_whichever_is_first() -> None:
    registry = Registry()
    registry.register_many(TOOLS[:50])
    for method in ("bm25", "hybrid", "embedding", "bm25"):
        assert names(registry.search("report_7", method=method, limit=1)) == ["report_7"]
    registry.register(Tool(name="book_flight", description="Book a flight."))
    for method in ("bm25", "hybrid", "embedding"):
        assert names(registry.search("book flight", method=method, limit=1)) == ["book_flight"]


@pytest.mark.parametrize("method", ["bm25", "hybrid"])
def test_an_index_that_is_read_in_slices_answers_as_one_that_is_read_at_once(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("mail", "file", "issue", "channel", "table", "invoice", "build", "alert", "page")
    tools = [
        Tool(
            name=f"{words[it % 9]}_{words[it % 7]}_{it}",
            description=f"Send the {words[it % 5]} of a {words[it % 8]} to the {words[it % 4]}.",
        )
        for it in range(700)
    ]
    queries = ("send a mail to a channel", "invoice of a build", "page 7", "alert", "table file")
    answers: list[list[SearchResponse]] = []
    for size in (10_000, 64):
        monkeypatch.setattr("pegboard.search.index.index.SLICE", size)
        registry = Registry()
        registry.register_many(tools)
        answers.append([registry.search(it, method=method, explain=True) for it in queries])
    assert answers[0] == answers[1]
    assert all(it.hits for it in answers[0])


def test_an_index_is_read_in_slices_between_which_other_threads_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes: list[int] = []

    class Counted(ToolRuns):
        def __init__(self, texts: Sequence[ToolText]) -> None:
            sizes.append(len(texts))
            super().__init__(texts)

    monkeypatch.setattr("pegboard.search.index.index.ToolRuns", Counted)
    monkeypatch.setattr("pegboard.search.index.index.SLICE", 2_000)
    registry = Registry()
    registry.register_many(Tool(name=f"tool_{it}", description="Do it.") for it in range(5_000))
    registry.search("do it")
    assert sizes == [2_000, 2_000, 1_000]
