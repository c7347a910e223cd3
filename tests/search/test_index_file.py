"""The index in a file: what has not changed is taken from it, and nothing else."""

import os
import time
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pegboard.model import Annotations, CatalogChange, LazyTool, Tool
from pegboard.search.index import index
from pegboard.search.index.index import ToolIndex
from pegboard.search.index.index_file import fingerprint
from pegboard.search.methods.index_searcher import plain_weights
from pegboard.search.text import fields, words
from pegboard.search.text.fields import ToolText
from pegboard.search.text.postings import Floats
from pegboard.search.text.words import query_words
from tests.search.meanings import HashedMeaning

TOOLS = tuple(
    Tool(
        name=f"{verb}_{thing}",
        description=f"Can {verb} every {thing}. 天气 \ud800",
        server=thing,
        tags=(verb,),
        input_schema={"properties": {thing: {"description": "Which one."}}},
    )
    for verb in ("send", "read", "list", "delete")
    for thing in ("mail", "file", "note", "song", "photo")
)

# Half of a pair of surrogates is in none of these, so that they can be read all at once.
PLAIN = tuple(
    msgspec.structs.replace(tool, description=tool.description.removesuffix(" \ud800"))
    for tool in TOOLS
)


class CountingMeaning(HashedMeaning):
    """Says how many tools it was asked about."""

    asked = 0

    def of_tools(self, texts: list[ToolText]) -> Floats:  # pyright: ignore[reportIncompatibleMethodOverride]
        self.asked += len(texts)
        return super().of_tools(texts)


def saved(path: Path, tools: tuple[Tool, ...] = TOOLS, *, width: int = 8) -> Path:
    there = ToolIndex(HashedMeaning(width=width, regions=width + 1))
    there.apply(CatalogChange(revision=1, added=tools))
    assert there.save(path)
    return path


def opened(
    path: Path | None, tools: tuple[Tool, ...] = TOOLS, *, meaning: HashedMeaning | None = None
) -> ToolIndex:
    found = ToolIndex(meaning or HashedMeaning(regions=9), saved=path)
    found.apply(CatalogChange(revision=1, added=tools))
    return found


def answers(found: ToolIndex, text: str = "send mail and photo") -> list[tuple[str, float, float]]:
    assert isinstance(found.meaning, HashedMeaning)
    vectors = found.meaning.of_query(text).vectors
    got = found.snapshot.candidates(plain_weights(query_words(text)), vectors)
    return sorted(
        (got.tool(it).name, float(got.lexical[it]), float(got.dense[it])) for it in range(len(got))
    )


@pytest.mark.parametrize("width", [8, 256])
@pytest.mark.covers("R-REG-31")
def test_what_was_saved_is_not_built_again(tmp_path: Path, width: int) -> None:
    meaning = CountingMeaning(width=width, regions=width + 1)
    found = opened(saved(tmp_path / "index", width=width), meaning=meaning)
    assert meaning.asked == 0
    assert answers(found) == answers(
        opened(None, meaning=HashedMeaning(width=width, regions=width + 1))
    )
    assert [it.name for it in tmp_path.iterdir()] == ["index"]


@pytest.mark.parametrize("tools", [TOOLS, PLAIN], ids=["odd", "plain"])
def test_in_another_order_it_is_the_same(tmp_path: Path, tools: tuple[Tool, ...]) -> None:
    meaning = CountingMeaning()
    found = opened(saved(tmp_path / "index", tools), tools[::-1], meaning=meaning)
    assert (meaning.asked, answers(found)) == (0, answers(opened(None, tools)))


@pytest.mark.parametrize("tools", [TOOLS, PLAIN], ids=["odd", "plain"])
def test_only_what_changed_is_built_anew(tmp_path: Path, tools: tuple[Tool, ...]) -> None:
    new = (Tool(name="send_pigeon"), Tool(name="send_mail", description="Changed."), *tools[2:])
    meaning = CountingMeaning()
    found = opened(saved(tmp_path / "index", tools), new, meaning=meaning)
    assert (meaning.asked, answers(found)) == (2, answers(opened(None, new)))
    assert len(found.snapshot) == len(new)


def test_a_tool_more_or_less_is_told_apart(tmp_path: Path) -> None:
    path = saved(tmp_path / "index", PLAIN)
    for tools, new in ((PLAIN[1:], 0), ((*PLAIN, Tool(name="send_pigeon")), 1)):
        meaning = CountingMeaning()
        found = opened(path, tools, meaning=meaning)
        assert (meaning.asked, answers(found)) == (new, answers(opened(None, tools)))


def test_all_that_happened_is_saved(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index, "BATCH", 3)
        there = opened(None, TOOLS[:10])
        there.apply(CatalogChange(revision=2, added=TOOLS[10:12], removed=TOOLS[:4]))
    there.save(tmp_path / "index")
    meaning = CountingMeaning()
    found = opened(tmp_path / "index", TOOLS[4:12], meaning=meaning)
    assert (meaning.asked, answers(found)) == (0, answers(there))


def test_an_index_goes_on_after_it_was_read(tmp_path: Path) -> None:
    found = opened(saved(tmp_path / "index"))
    found.apply(CatalogChange(revision=2, removed=TOOLS[:5], added=(Tool(name="send_it"),)))
    found.settle()
    assert answers(found) == answers(opened(None, (*TOOLS[5:], Tool(name="send_it"))))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_damaged_file_is_as_none(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = saved(tmp_path_factory.mktemp("damaged") / "index")
    content = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        content[place] ^= data.draw(st.integers(1, 255))
    else:
        del content[place:]
    path.write_bytes(content)
    meaning = CountingMeaning()
    found = opened(path, meaning=meaning)
    assert (meaning.asked, len(found.snapshot)) == (len(TOOLS), len(TOOLS))


def test_a_file_of_another_version_is_as_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved(tmp_path / "index")
    other = CountingMeaning(version="2")
    opened(path, meaning=other)
    assert other.asked == len(TOOLS)
    for module in (words, fields):
        with monkeypatch.context() as patch:
            patch.setattr(module, "VERSION", 99)
            meaning = CountingMeaning()
            opened(path, meaning=meaning)
            assert meaning.asked == len(TOOLS)


@pytest.mark.parametrize("place", ["missing", "."])
def test_what_is_no_file_is_as_none(tmp_path: Path, place: str) -> None:
    assert len(opened(tmp_path / place).snapshot) == len(TOOLS)


@pytest.mark.skipif(os.name != "posix", reason="pipes of POSIX")
def test_a_pipe_is_not_waited_for_and_gives_way_to_the_file(tmp_path: Path) -> None:
    place = tmp_path / "index"
    os.mkfifo(place)
    found = opened(place)
    assert answers(found) == answers(opened(None))
    assert found.save(place)
    assert place.is_file()


def test_an_index_that_cannot_be_saved_says_so(tmp_path: Path) -> None:
    assert not opened(None).save(tmp_path / "missing" / "index")
    (tmp_path / "taken").mkdir()
    assert not opened(None).save(tmp_path / "taken")
    assert [it.name for it in tmp_path.iterdir()] == ["taken"]
    assert not ToolIndex().save(tmp_path / "index")


def test_what_is_searched_is_in_the_fingerprint() -> None:
    there = [
        Tool(name="a"),
        Tool(name="b"),
        Tool(name="a", description="a"),
        Tool(name="a", annotations=Annotations(title="a")),
        Tool(name="a", server="a"),
        Tool(name="a", category="a"),
        Tool(name="a", tags=("a",)),
        Tool(name="a", tags=("a", "b")),
        Tool(name="a", input_schema={"properties": {"a": {}}}),
        Tool(name="a", input_schema={"x": {1, 2}}),
    ]
    assert len({fingerprint(tool) for tool in there}) == len(there)


def test_a_tool_from_a_store_has_the_fingerprint_of_the_tool_that_was_stored() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    raw = msgspec.Raw(msgspec.json.encode(schema))
    stored = LazyTool(name="a", input_schema=raw)  # pyright: ignore[reportArgumentType]
    assert fingerprint(stored) == fingerprint(Tool(name="a", input_schema=schema))


def test_what_killed_processes_left_behind_is_removed_by_the_next_save(tmp_path: Path) -> None:
    place = tmp_path / "board.search"
    old, fresh, other = (
        tmp_path / it for it in ("board.searchab.new", "board.searchcd.new", "x.new")
    )
    for path in (old, fresh, other):
        path.write_bytes(b"half")
    long_ago = time.time() - 3600
    for path in (old, other):
        os.utime(path, (long_ago, long_ago))
    saved(place)
    assert sorted(it.name for it in tmp_path.iterdir()) == [place.name, fresh.name, other.name]
