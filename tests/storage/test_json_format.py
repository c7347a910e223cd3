"""The text of `tools.json`: what is written is read as it was, and decoded only once."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegboard.model import Tool, Usage
from pegboard.storage import encoding, open_store
from pegboard.storage.encoding import decode_tool, encode_tool
from pegboard.storage.json_file import format as file_format
from pegboard.storage.json_file.content import JsonContent
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
    content.tools_around = {name: msgspec.Raw(it) for name, it in around.items()}
    return content


@given(given_tools=st.lists(tools, max_size=6), uses=usages, around=arounds)
def test_what_is_written_is_read_as_it_was(
    tmp_path_factory: pytest.TempPathFactory,
    given_tools: list[Tool],
    uses: dict[str, Usage],
    around: Any,
) -> None:
    content = content_of(given_tools, uses, around)
    data = file_format.tools_text(content)
    assert data == msgspec.json.format(data, indent=2) + b"\n"
    read = JsonContent()
    path = tmp_path_factory.getbasetemp() / "written.json"
    path.write_bytes(data)
    file_format.read_tools(read, path)
    assert list(read.tools.items()) == list(content.tools.items())
    assert read.uses == content.uses
    assert {name: decode_tool(it) for name, it in read.tools.items()} == read.decoded
    written = {name: bytes(it) for name, it in read.tools_around.items()}
    assert list(written.items()) == list((around or {"version": b"1", "tools": b"{}"}).items())


def test_what_was_written_is_decoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(tmp_path / "tools.json") as first:
        first.save_many([Tool(name="a", input_schema=SCHEMA), Tool(name="b")])

    def refuse(_: bytes) -> Tool:
        raise AssertionError

    with open_store(tmp_path / "tools.json") as again:
        again.save(Tool(name="b", description="new"))
        assert [it.tool.description for it in again.load_all()] == ["", "new"]
    with open_store(tmp_path / "tools.json") as again:
        monkeypatch.setattr(encoding, "decode_tool", refuse)
        assert names(again) == ["a", "b"]
