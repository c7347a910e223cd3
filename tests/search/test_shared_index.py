from pathlib import Path

import pytest

from pegboard.model import CatalogChange, Tool
from pegboard.search.index.shared_index import WORTH_SAVING, SharedIndex

TOOLS = tuple(Tool(name=f"tool_{it}", description="Do it.") for it in range(WORTH_SAVING))


def filled(path: Path | None, tools: tuple[Tool, ...] = TOOLS) -> SharedIndex:
    shared = SharedIndex(path)
    shared.open(meaning=False).apply(CatalogChange(revision=1, added=tools))
    return shared


def test_those_who_share_it_get_the_same() -> None:
    shared = SharedIndex()
    assert shared.open(meaning=False) is shared.open(meaning=False)
    assert shared.lacks(meaning=True)
    assert not shared.lacks(meaning=False)
    first = shared.open(meaning=False)
    shared.forget()
    assert shared.open(meaning=False) is not first


def test_it_is_saved_where_it_is_to_be_and_read_from_there(tmp_path: Path) -> None:
    path = tmp_path / "new" / "tools.db.search"
    filled(path).save()
    assert [it.name for it in path.parent.iterdir()] == ["tools.db.search-words"]
    again = filled(path, (*TOOLS, Tool(name="one_more")))
    assert len(again.open(meaning=False).snapshot) == WORTH_SAVING + 1


def test_what_is_saved_already_is_not_saved_again(tmp_path: Path) -> None:
    shared = filled(tmp_path / "tools.search")
    shared.save()
    [file] = tmp_path.iterdir()
    file.unlink()
    shared.save()
    assert list(tmp_path.iterdir()) == []
    shared.open(meaning=False).apply(CatalogChange(revision=2, added=(Tool(name="one_more"),)))
    shared.save()
    assert file.is_file()


def test_little_is_not_worth_a_file_and_no_place_is_none(tmp_path: Path) -> None:
    filled(tmp_path / "tools.search", TOOLS[1:]).save()
    filled(None).save()
    SharedIndex(tmp_path / "tools.search").save()
    shared = filled(tmp_path / "tools.search")
    shared.keep_at(None)
    shared.save()
    shared.save_aside()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("occupied", ["file", "folder"])
def test_a_place_that_cannot_be_written_harms_nobody(tmp_path: Path, occupied: str) -> None:
    if occupied == "file":
        (tmp_path / "here").write_text("no folder", encoding="utf-8")
        path = tmp_path / "here" / "tools.search"
    else:
        path = tmp_path / "tools.search"
        (tmp_path / "tools.search-words" / "inside").mkdir(parents=True)
    shared = filled(path)
    shared.save()
    assert len(shared.open(meaning=False).snapshot) == WORTH_SAVING
