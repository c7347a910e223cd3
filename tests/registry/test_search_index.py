"""The index that is kept beside a store."""

from pathlib import Path

import pytest

from pegboard import Registry, Tool
from pegboard.search import SearchResponse

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
