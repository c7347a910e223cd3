"""`tools.json` in pieces: read so, it is what it is as a whole, and it takes no more room."""

import tracemalloc
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegboard.errors import StorageError
from pegboard.model import Tool, Usage
from pegboard.storage import open_store
from pegboard.storage.encoding import decode_tool, encode_tool
from pegboard.storage.json_file import pieces, store
from pegboard.storage.json_file.content import JsonContent
from pegboard.storage.json_file.format import read_tools
from tests.storage.test_json_file import names

SCHEMA = {"type": "object", "properties": {"}\n  }": {"description": '\n    },\n"'}}}

tool_names = st.text(st.sampled_from('ab"\\{}ä€'), min_size=1, max_size=4)
tools = st.builds(
    Tool,
    name=tool_names,
    description=st.sampled_from(["", "plain", '\n    },\n    "x": {', "“ä”\\"]),
    input_schema=st.sampled_from([{}, SCHEMA]),
    output_schema=st.sampled_from([None, {}, SCHEMA]),
    tags=st.sampled_from([(), ("a", "b")]),
    server=st.sampled_from([None, "web"]),
    defer_loading=st.booleans(),
)
usages = st.dictionaries(tool_names, st.just(Usage(use_frequency=3)), max_size=3)
arounds = st.sampled_from(
    [
        {},
        {"$schema": b'"x"', "version": b"1", "tools": b"{}"},
        {"tools": b"{}", "note": b'{"a":{"b":{}}}', "version": b"1"},
        {"version": b"1", "tools": b"{}", "end": b"[]"},
    ]
)


def content_of(given_tools: list[Tool], uses: dict[str, Usage], around: Any) -> JsonContent:
    content = JsonContent()
    content.tools = {it.name: encode_tool(it) for it in given_tools}
    content.uses = {name: it for name, it in uses.items() if name in content.tools}
    content.tools_around = around
    return content


def in_pieces(data: bytes) -> JsonContent | None:
    content = JsonContent()
    return content if pieces.read_as_written(content, BytesIO(data)) else None


def as_a_whole(data: bytes, path: Path) -> JsonContent | None:
    content = JsonContent()
    try:
        read_tools(content, data, path)
    except StorageError:
        return None
    return content


def seen(content: JsonContent) -> tuple[Any, ...]:
    around = {name: bytes(it) for name, it in content.tools_around.items()}
    texts = list(content.tools.items())
    return texts, content.extras, content.uses, list(around.items()), content.tenant


@pytest.fixture(scope="module", autouse=True)
def small_blocks() -> Any:
    patch = pytest.MonkeyPatch()
    patch.setattr(pieces, "BLOCK", 150)
    patch.setattr(pieces, "ENTRIES", 2)
    yield
    patch.undo()


@given(st.lists(tools, max_size=6), usages, arounds)
def test_what_is_written_in_pieces_is_read_the_same_in_pieces_and_as_a_whole(
    given_tools: list[Tool], uses: dict[str, Usage], around: Any
) -> None:
    content = content_of(given_tools, uses, around)
    data = b"".join(pieces.tools_pieces(content))
    whole = as_a_whole(data, Path("none.json"))
    assert whole is not None
    assert (whole.tools, whole.uses) == (content.tools, content.uses)
    assert {name: decode_tool(it) for name, it in whole.tools.items()} == whole.decoded
    read = in_pieces(data)
    if read is not None:
        assert seen(read) == seen(whole)
        assert read.decoded == whole.decoded
    else:
        assert not content.tools or len(data) > 150


@given(st.lists(tools, min_size=1, max_size=4), arounds, st.data())
def test_a_spoiled_file_is_never_read_otherwise_in_pieces_than_as_a_whole(
    given_tools: list[Tool], around: Any, data: st.DataObject
) -> None:
    good = b"".join(pieces.tools_pieces(content_of(given_tools, {}, around)))
    start = data.draw(st.integers(0, len(good)))
    end = data.draw(st.integers(start, min(len(good), start + 12)))
    signs = st.sampled_from([b"", b",", b"}", b"{", b'"', b"\n", b"\n    },\n", b"\n  }", b"\xff"])
    bad = good[:start] + data.draw(signs) + good[end:]
    read = in_pieces(bad)
    if read is not None:
        whole = as_a_whole(bad, Path("none.json"))
        assert whole is not None
        assert seen(read) == seen(whole)


def test_what_was_written_is_decoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(tmp_path / "tools.json") as first:
        first.save_many([Tool(name="a", input_schema=SCHEMA), Tool(name="b")])

    def refuse(_: bytes) -> Tool:
        raise AssertionError

    with open_store(tmp_path / "tools.json") as again:
        again.save(Tool(name="b", description="new"))
        assert [it.tool.description for it in again.load_all()] == ["", "new"]
    with open_store(tmp_path / "tools.json") as again:
        monkeypatch.setattr(store, "decode_tool", refuse)
        assert names(again) == ["a", "b"]


@pytest.mark.covers("R-REG-40")
def test_neither_opening_nor_folding_needs_the_file_a_second_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "BLOCK", 50_000)
    path = tmp_path / "tools.json"
    with open_store(path) as first:
        first.save_many(Tool(name=f"{number}", description="x" * 5_000) for number in range(800))
    tracemalloc.start()
    try:
        opened = open_store(path)
        opened.load_all()
        _, peak = tracemalloc.get_traced_memory()
        # The text, and the description of each tool.
        assert peak < 2.5 * path.stat().st_size
        tracemalloc.reset_peak()
        now, _ = tracemalloc.get_traced_memory()
        opened.save(Tool(name="one more"))
        opened.close()
        _, peak = tracemalloc.get_traced_memory()
        assert peak - now < path.stat().st_size / 4
    finally:
        tracemalloc.stop()
