"""Damaged JSON files: refused with the place, never touched, and what can be kept of them."""

import json
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from pegboard.errors import (
    StorageError,
    StoreDamagedError,
    StoreUnavailableError,
    StoreVersionError,
)
from pegboard.model import Tool, Usage
from pegboard.storage import StoreChange, open_store
from pegboard.storage.json_file.journal import encode_header
from pegboard.storage.json_file.paths import signature_of
from pegboard.storage.json_file.recovery import recover
from tests.storage.test_json_file import files, names, until

GOOD = """{
  "version": 1,
  "tools": {
    "a": {
      "name": "a",
      "description": "first"
    },
    "b": {
      "name": "b",
      "input_schema": {
        "type": "object"
      },
      "owner": "me",
      "use_frequency": 2
    },
    "c": {
      "name": "c"
    }
  },
  "note": "mine"
}
"""

DAMAGE: dict[str, tuple[str, int, int]] = {
    "empty": ("", 1, 1),
    "blank": (" \n\n", 1, 1),
    "no JSON": ("tools:\n  a: 1\n", 1, 1),
    "half": (GOOD[:100], 8, 4),
    "cut in a text": (GOOD[:84], 6, 22),
    "more after the end": (GOOD + "}", 22, 1),
    "a comma too many": (GOOD.replace('"name": "c"', '"name": "c",'), 18, 5),
    "not a number": (GOOD.replace('"use_frequency": 2', '"use_frequency": NaN'), 14, 24),
    "text": ('"tools"', 1, 1),
    "a number": ("\n  7", 2, 3),
    "no tools": ('{"version": 1}', 1, 1),
    "no version": ('{"tools": {"a": {"name": {}}}}', 1, 1),
    "no version and no tool": ('{"tools": {"a": 5, "b": {"name": "b"}}}', 1, 1),
    "version is text": (GOOD.replace('"version": 1', '"version": "1"'), 2, 3),
    "version is true": (GOOD.replace('"version": 1', '"version": true'), 2, 3),
    "version is 1.0": (GOOD.replace('"version": 1', '"version": 1.0'), 2, 3),
    "version is 0": (GOOD.replace('"version": 1', '"version": 0'), 2, 3),
    "tools is a list": ('{"version": 1,\n "tools": []}', 2, 2),
    "an entry is text": (GOOD.replace('{\n      "name": "c"\n    }', '"c"'), 16, 5),
    "a description is a number": (GOOD.replace('"first"', "1"), 6, 7),
    "tags are text": (GOOD.replace('"description": "first"', '"tags": "x"'), 6, 7),
    "a schema is text": (GOOD.replace('{\n        "type": "object"\n      }', '"x"'), 10, 7),
    "use is negative": (GOOD.replace('"use_frequency": 2', '"use_frequency": -2'), 14, 7),
    "use is text": (GOOD.replace('"use_frequency": 2', '"use_frequency": "2"'), 14, 7),
    "another name inside": (GOOD.replace('"name": "c"', '"name": "d"'), 17, 7),
    "a name that cannot be": (GOOD.replace('"c"', '" "'), 16, 5),
    "a name twice": (GOOD.replace('"c"', '"a"'), 16, 5),
    "a name twice with escapes": (GOOD.replace('"c"', '"\\u0061"'), 16, 5),
    "a list with a name twice": ('[{"name": "a"},\n  {"name": "a"}]', 2, 3),
    "a list with no name": ('[{"name": "a"},\n  {"title": "a"}]', 2, 3),
    "version 0 with text": ('{\n "a": {},\n "b": "text"}', 3, 2),
    "too deep": ('{"a": ' + "[" * 100_000, 1, 1),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tools.json"


@pytest.mark.parametrize(("text", "line", "column"), DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_file_is_refused_with_the_place_and_not_touched(
    path: Path, text: str, line: int, column: int
) -> None:
    path.write_text(text, "utf-8")
    before = signature_of(path)
    for _ in range(2):
        with pytest.raises(StoreDamagedError) as caught:
            open_store(path)
        assert (caught.value.line, caught.value.column) == (line, column), str(caught.value)
        assert caught.value.url == str(path)
        assert caught.value.remedy == f"pegboard store recover --store {path}"
    assert signature_of(path) == before
    assert files(path) == ["tools.json"]


def test_what_is_not_utf_8_is_refused(path: Path) -> None:
    path.write_bytes(GOOD.encode().replace(b"first", b"fir\xff"))
    with pytest.raises(StoreDamagedError) as caught:
        open_store(path)
    assert (caught.value.line, caught.value.column) == (6, 26)
    assert recover(path).kept == ("b", "c")


@pytest.mark.parametrize(
    ("good", "bad"),
    [(b'"mine"', b'"caf\xe9"'), (b'"note"', b'"not\xe9"'), (b'"mine"', b"NaN")],
)
def test_a_field_beside_the_tools_that_cannot_be_read_costs_no_tool(
    path: Path, good: bytes, bad: bytes
) -> None:
    path.write_bytes(GOOD.encode().replace(good, bad))
    with pytest.raises(StoreDamagedError):
        open_store(path)
    recovered = recover(path)
    assert recovered.kept == ("a", "b", "c")
    [lost] = recovered.lost
    assert lost.startswith(f"{path}:20:3: ")
    with open_store(path) as store:
        assert sorted(names(store)) == ["a", "b", "c"]


META = '"meta": {\n    "a": {}\n  }'


@pytest.mark.parametrize(
    ("place", "with_meta"),
    [
        ('"version": 1', f'"version": 1,\n  {META}'),
        ('"version": 1', f'{META},\n  "version": 1'),
        ('"note": "mine"', f'"note": "mine",\n  {META}'),
    ],
)
@pytest.mark.parametrize(("good", "bad"), [('"first"', "7"), ('"name": "b",', '"name" "b",')])
def test_what_others_keep_beside_the_tools_is_still_there(
    path: Path, place: str, with_meta: str, good: str, bad: str
) -> None:
    path.write_text(GOOD.replace(place, with_meta).replace(good, bad), "utf-8")
    recovered = recover(path)
    assert len(recovered.kept) == 2
    assert len(recovered.lost) == 1
    found = json.loads(path.read_bytes())
    assert (found["note"], found["meta"]) == ("mine", {"a": {}})


def test_a_tenant_that_is_no_name_is_told_and_the_tools_are_kept(path: Path) -> None:
    path.write_text('{"version": 1, "tenant": 5, "tools": {"a": {"name": "a"}}}', "utf-8")
    recovered = recover(path)
    assert recovered.kept == ("a",)
    assert len(recovered.lost) == 1
    with open_store(path) as store:
        assert names(store) == ["a"]


def test_a_byte_order_mark_is_no_damage(path: Path) -> None:
    path.write_text("\ufeff" + GOOD, "utf-8")
    with open_store(path) as store:
        assert names(store) == ["b", "a", "c"]


@pytest.mark.parametrize("name", ["tools.json", "tools.state.json"])
def test_a_newer_version_is_refused_and_not_touched(path: Path, name: str) -> None:
    file = path.with_name(name)
    file.write_text('{"version": 2, "tools": "who knows"}', "utf-8")
    before = signature_of(file)
    with pytest.raises(StoreVersionError) as caught:
        open_store(path)
    assert (caught.value.found, caught.value.known) == (2, 1)
    with pytest.raises(StoreVersionError):
        recover(path)
    assert signature_of(file) == before
    assert files(path) == [name]


def test_a_damaged_state_is_refused_and_can_be_recovered(path: Path) -> None:
    path.write_text(GOOD, "utf-8")
    state = path.with_name("tools.state.json")
    text = json.dumps(
        {
            "version": 1,
            "usage": {"x": {"use_frequency": 3}},
            "values": {"pins": {"a": [1], "b": {"c": 2}}},
        }
    )
    state.write_text(text[:-8], "utf-8")
    with pytest.raises(StoreDamagedError) as caught:
        open_store(path)
    assert caught.value.url == str(state)
    recovered = recover(state)
    assert recovered.kept == ("a", "b", "c")
    assert recovered.saved_as is not None
    assert recovered.saved_as.read_text("utf-8") == text[:-8]
    assert len(recovered.lost) == 1
    with open_store(path) as store:
        assert {key: it.value for key, it in store.namespace("pins").items().items()} == {"a": [1]}
        assert store.usage()["x"] == Usage(use_frequency=3)


def test_what_of_a_state_is_of_the_wrong_shape_is_told_and_the_rest_is_kept(path: Path) -> None:
    path.write_text(GOOD, "utf-8")
    state = path.with_name("tools.state.json")
    content = {
        "version": 1,
        "note": {"a": 1},
        "usage": {"x": {"use_frequency": 3}, "y": 5},
        "values": {"pins": {"a": [1]}, "bad": [1]},
    }
    state.write_text(json.dumps(content), "utf-8")
    recovered = recover(path)
    assert [it.partition("'")[2].partition("'")[0] for it in recovered.lost] == [
        "usage/y",
        "values/bad",
    ]
    assert json.loads(state.read_bytes()) == {
        "version": 1,
        "note": {"a": 1},
        "usage": {"x": {"use_frequency": 3, "last_used": None}},
        "values": {"pins": {"a": [1]}},
    }


@pytest.mark.parametrize(
    ("spoil", "kept", "lost"),
    [
        (lambda text: text[:140], ["a"], 1),
        (lambda text: text.replace('"name": "b",', '"name" "b",'), ["a", "c"], 1),
        (lambda text: text.replace('      },\n      "owner"', '      "owner"'), ["a", "c"], 1),
        (lambda text: text.replace('"first"', "7"), ["b", "c"], 1),
        (lambda text: text.replace('"first"', "7").replace('"c"', "c"), ["b"], 2),
        (lambda text: text.replace('},\n    "b"', '}\n    "b"'), ["a", "b", "c"], 1),
        (lambda text: text.replace('"name": "c"', '"name": "c",'), ["a", "b"], 1),
        (lambda text: text.replace('"version": 1', '"version": "1"'), ["a", "b", "c"], 0),
        (lambda text: text.replace('"version": 1,', ""), ["a", "b", "c"], 0),
        (lambda text: text.rstrip()[:-1], ["a", "b", "c"], 1),
        (lambda _: "", [], 1),
        (lambda _: "\0" * 5000, [], 1),
    ],
)
def test_what_can_be_read_is_kept(
    path: Path, spoil: Callable[[str], str], kept: list[str], lost: int
) -> None:
    text = spoil(GOOD)
    path.write_text(text, "utf-8")
    recovered = recover(path)
    assert sorted(recovered.kept) == kept, recovered
    assert (len(recovered.lost) > 0) == (lost > 0), recovered
    assert recovered.saved_as is not None
    assert recovered.saved_as.name.startswith("tools.json.damaged-")
    assert recovered.saved_as.read_text("utf-8") == text
    with open_store(path) as store:
        assert sorted(names(store)) == kept
        if "b" in kept:
            assert store.load(["b"])["b"].extras == {"owner": "me"}
            assert store.usage(["b"])["b"] == Usage(use_frequency=2)
    assert files(path) == ["tools.json", recovered.saved_as.name]
    again = recover(path)
    assert again.saved_as is None
    assert not again.lost


@pytest.mark.parametrize(
    "damage",
    [
        "blank",
        "half",
        "cut in a text",
        "a comma too many",
        "not a number",
        "an entry is text",
        "a description is a number",
        "a schema is text",
        "use is negative",
        "another name inside",
        "a name twice",
        "a list with no name",
    ],
)
def test_recovery_names_the_place_that_reading_names(path: Path, damage: str) -> None:
    text, line, column = DAMAGE[damage]
    path.write_text(text, "utf-8")
    assert recover(path).lost[0].startswith(f"{path}:{line}:{column}: ")


def test_another_name_inside_comes_with_a_hint(path: Path) -> None:
    path.write_text(GOOD.replace('"c": {', '"d": {'), "utf-8")
    with pytest.raises(StoreDamagedError, match="rename it there too"):
        open_store(path)


@pytest.mark.parametrize(
    "text",
    [
        '[{"title": "x"}, {"name": "a"}]',
        '{"version": 1, "tools": [{"name": "a"}, 5]}',
        '{"tools": {"x": 5, "a": {"name": "a"}}}',
    ],
)
def test_what_has_no_name_is_told_and_the_others_are_kept(path: Path, text: str) -> None:
    path.write_text(text, "utf-8")
    recovered = recover(path)
    assert recovered.kept == ("a",)
    assert len(recovered.lost) == 1


def test_a_file_in_use_can_be_recovered_and_is_followed(path: Path) -> None:
    path.write_text(GOOD, "utf-8")
    with open_store(path) as store:
        store.save(Tool(name="d"))
        path.write_text(GOOD[:120], "utf-8")
        assert recover(path).kept == ("a", "d")
        assert names(store) == ["a", "d"]
        store.save(Tool(name="e"))
    with open_store(path) as store:
        assert names(store) == ["a", "d", "e"]


def test_every_entry_before_a_cut_is_kept_wherever_the_cut_is(path: Path) -> None:
    with open_store(path) as store:
        for number in range(4):
            store.save(Tool(name=f"tool {number}", description='"} {\\', tags=("x", "y")))
    whole = path.read_text("utf-8")
    ends = [whole.index("    }", whole.index(f'"tool {number}": {{')) + 5 for number in range(4)]
    for cut in range(0, len(whole) - 2, 7):
        path.write_text(whole[:cut], "utf-8")
        expected = tuple(f"tool {number}" for number in range(4) if ends[number] <= cut)
        assert recover(path).kept == expected, cut


def test_the_journal_of_a_damaged_file_is_kept_too(path: Path) -> None:
    path.write_text(GOOD, "utf-8")
    store = open_store(path)
    store.save_many([Tool(name="a", description="second"), Tool(name="d")])
    store.namespace("pins").put("x", 1)
    store.delete("c")
    path.write_text(GOOD[:120], "utf-8")
    store.close()
    assert files(path) == ["tools.json", "tools.json.journal"]
    with pytest.raises(StoreDamagedError):
        open_store(path)
    assert recover(path).kept == ("a", "d")
    with open_store(path) as again:
        assert again.load(["a"])["a"].tool.description == "second"
        assert again.namespaces() == ["pins"]


def test_a_spoiled_line_in_the_middle_of_a_journal_is_refused(path: Path) -> None:
    with open_store(path) as store:
        for name in "abc":
            store.save(Tool(name=name))
        journal = path.with_name("tools.json.journal")
        content = journal.read_bytes()
    path.unlink()
    journal.write_bytes(content.replace(b'"name":"b"', b'"name":"x"'))
    with pytest.raises(StoreDamagedError) as caught:
        open_store(path)
    assert caught.value.url == str(journal)
    assert caught.value.line == 3
    assert caught.value.remedy == f"pegboard store recover --store {path}"
    recovered = recover(path)
    assert recovered.kept == ("a", "c")
    assert len(recovered.lost) == 1
    assert recovered.saved_as is not None
    assert files(path) == ["tools.json", recovered.saved_as.name]


@pytest.mark.parametrize("size", [1, 40, 100])
@pytest.mark.parametrize("filling", [b"\0", b"x"])
def test_a_journal_whose_header_is_gone_is_damaged_and_can_be_recovered(
    path: Path, size: int, filling: bytes
) -> None:
    with open_store(path) as store:
        store.save(Tool(name="a"))
        journal = path.with_name("tools.json.journal")
        content = journal.read_bytes()
    path.unlink()
    spoiled = filling * size + content[size:]
    journal.write_bytes(spoiled)
    with pytest.raises(StoreDamagedError) as caught:
        open_store(path)
    assert caught.value.url == str(journal)
    assert caught.value.remedy == f"pegboard store recover --store {path}"
    assert journal.read_bytes() == spoiled
    recovered = recover(path)
    assert recovered.saved_as is not None
    assert recovered.saved_as.read_bytes() == spoiled
    assert recovered.lost
    with open_store(path) as store:
        store.save(Tool(name="b"))
        assert "b" in names(store)


@pytest.mark.parametrize("size", [1, 8, 30, 100])
def test_a_journal_whose_first_line_was_never_finished_is_no_damage(path: Path, size: int) -> None:
    with open_store(path) as store:
        store.save(Tool(name="a"))
        journal = path.with_name("tools.json.journal")
        content = journal.read_bytes()
    path.unlink()
    journal.write_bytes(content[:size])
    with open_store(path) as store:
        assert names(store) == []
        store.save(Tool(name="b"))
        assert names(store) == ["b"]


@pytest.mark.parametrize(
    "rest", [b"", b"x", b'{"sum":"', b"\0" * 600, b'{"sum":"00000000","do":[]}']
)
def test_what_a_dead_writer_did_not_finish_is_taken_away(path: Path, rest: bytes) -> None:
    with open_store(path) as store:
        store.save(Tool(name="a"))
        journal = path.with_name("tools.json.journal")
        content = journal.read_bytes()
    path.unlink()
    journal.write_bytes(content + rest)
    path.with_name(".tools.json.tmp").write_bytes(b"half")
    path.with_name(".tools.state.json.tmp").write_bytes(b"half")
    with open_store(path) as store, open_store(path) as other:
        assert names(store) == ["a"]
        store.save(Tool(name="b"))
        assert names(other) == ["a", "b"]
    assert files(path) == ["tools.json"]


def test_a_last_line_that_is_whole_but_spoiled_is_kept_aside_and_told(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with open_store(path) as store:
        store.save(Tool(name="a"))
        store.save(Tool(name="b"))
        journal = path.with_name("tools.json.journal")
        content = journal.read_bytes()
    path.unlink()
    journal.write_bytes(content.replace(b'"name":"b"', b'"name":"x"'))
    with open_store(path) as store:
        store.save(Tool(name="c"))
        assert names(store) == ["a", "c"]
    [aside] = [it for it in path.parent.iterdir() if ".damaged-" in it.name]
    assert aside.read_bytes() == content.splitlines(keepends=True)[2].replace(
        b'"name":"b"', b'"name":"x"'
    )
    assert "store_journal_damaged" in caplog.text


def test_a_journal_of_a_newer_pegboard_is_refused_and_not_touched(path: Path) -> None:
    journal = path.with_name("tools.json.journal")
    line = encode_header((None, None), None, version=2)
    journal.write_bytes(line)
    with pytest.raises(StoreVersionError):
        open_store(path)
    assert journal.read_bytes() == line
    assert files(path) == ["tools.json.journal"]


def test_there_is_nothing_to_recover_where_nothing_is(path: Path) -> None:
    with pytest.raises(StorageError, match="does not exist"):
        recover(path)
    assert files(path) == []


def test_the_journal_of_a_file_that_is_gone_is_recovered(path: Path) -> None:
    with open_store(path) as store:
        store.save(Tool(name="a"))
    store = open_store(path)
    store.save(Tool(name="b"))
    path.unlink()
    store.close()
    assert files(path) == ["tools.json.journal"]
    with pytest.raises(StoreUnavailableError, match=r"tools\.json\.journal says: .*recover"):
        open_store(path)
    recovered = recover(path)
    assert recovered.kept == ("b",)
    assert "gone" in recovered.lost[0]
    with open_store(path) as store:
        assert names(store) == ["b"]


def test_a_file_that_is_gone_is_not_recovered_from_a_journal_that_says_nothing(path: Path) -> None:
    path.write_text(GOOD, "utf-8")
    with open_store(path) as store:
        path.unlink()
        with pytest.raises(StoreUnavailableError, match="begin anew") as caught:
            store.load_all()
        assert "recover" not in str(caught.value)
    with open_store(path) as store:
        assert names(store) == []


def test_a_journal_that_was_folded_but_not_emptied_changes_nothing(path: Path) -> None:
    with open_store(path) as store:
        store.save(Tool(name="a"))
        store.delete("a")
        store.save_many([Tool(name="a"), Tool(name="b")])
        journal = path.with_name("tools.json.journal")
        content = journal.read_bytes()
    whole = path.read_bytes()
    journal.write_bytes(content)
    with open_store(path) as store:
        assert names(store) == ["a", "b"]
    assert path.read_bytes() == whole
    assert files(path) == ["tools.json"]


def test_a_broken_edit_is_logged_once_and_nothing_is_written_until_it_is_mended(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "pegboard.storage")
    told: list[StoreChange] = []
    path.write_text(GOOD, "utf-8")
    with open_store(path) as store:
        store.watch(told.append)
        path.write_text(GOOD[:100], "utf-8")
        until(lambda: bool(caplog.records))
        assert names(store) == ["b", "a", "c"]
        for _ in range(2):
            with pytest.raises(StoreDamagedError):
                store.save(Tool(name="d"))
        assert path.read_text("utf-8") == GOOD[:100]
        [record] = caplog.records
        assert record.getMessage().startswith(f"store_file_refused: {path}:")
        assert record.exc_info is None
        path.write_text(GOOD.replace("first", "mended"), "utf-8")
        until(lambda: bool(told))
        assert told == [StoreChange(tools=frozenset({"a"}))]
        store.save(Tool(name="d"))
        assert store.load(["a"])["a"].tool.description == "mended"
    assert json.loads(path.read_bytes())["note"] == "mine"


def test_closing_over_a_broken_edit_keeps_the_journal(path: Path) -> None:
    store = open_store(path)
    store.save(Tool(name="a"))
    path.write_text("{", "utf-8")
    store.close()
    assert path.read_text("utf-8") == "{"
    path.write_text(GOOD, "utf-8")
    with open_store(path) as store:
        assert store.load(["a"])["a"].tool.description == "first"
    assert files(path) == ["tools.json"]


def test_a_configuration_of_servers_is_no_store_and_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text('{"mcpServers": {"t": {"command": "x"}}}', encoding="utf-8")
    with pytest.raises(StoreDamagedError, match=r"Hub\.open"):
        open_store(path)
    assert path.read_text("utf-8") == '{"mcpServers": {"t": {"command": "x"}}}'
    assert [it.name for it in tmp_path.iterdir()] == ["mcp.json"]
