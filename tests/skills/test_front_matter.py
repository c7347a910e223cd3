import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegboard.skills.entry import InvalidSkill
from pegboard.skills.frontmatter import read_front_matter


def read(yaml: str) -> dict[str, Any]:
    return read_front_matter(f"---\n{yaml}\n---\nBody\n".encode())


@pytest.mark.parametrize(
    ("yaml", "found"),
    [
        ("a: yes\nb: 2026-01-01\nc: 12:30:00", {"a": "yes", "b": "2026-01-01", "c": "12:30:00"}),
        ("a: true\nb: null\nc: ~\nd:", {"a": True, "b": None, "c": None, "d": None}),
        ("a: 012\nb: 0x1F\nc: 0o17\nd: -3", {"a": 12, "b": 31, "c": 15, "d": -3}),
        ("a: 1.5e3\nb: .5\nc: 1.", {"a": 1500.0, "b": 0.5, "c": 1.0}),
        ("a: '1'\nb: \"x: y\"\nc: [1, {d: e}]", {"a": "1", "b": "x: y", "c": [1, {"d": "e"}]}),
        ("a: |\n  one\n  two\nb: >-\n  three\n  four", {"a": "one\ntwo\n", "b": "three four"}),
        ("<<: {a: b}", {"<<": {"a": "b"}}),
        ("a: grüße 技能 🎉", {"a": "grüße 技能 🎉"}),
    ],
)
def test_yaml_1_2_is_read_as_json(yaml: str, found: dict[str, Any]) -> None:
    assert read(yaml) == found


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_ends_and_a_byte_order_mark_do_not_matter(end: str) -> None:
    text = end.join(["\ufeff---", "a: b", "---", "Body"])
    assert read_front_matter(text.encode()) == {"a": "b"}
    assert read_front_matter(end.join(["---", "a: b", "---"]).encode()) == {"a": "b"}


BAD = {
    "an alias": "a: &x [1]\nb: *x",
    "a bomb": "a: &x [1,1]\nb: &y [*x,*x]\nc: [*y,*y]",
    "a key twice": "a: 1\na: 2",
    "a key that is no text": "1: a",
    "a date by its tag": "a: !!timestamp 2026-01-01",
    "no date by its tag": "a: !!timestamp x",
    "no truth value by its tag": "a: !!bool x",
    "bytes": "a: !!binary aGk=",
    "an object of Python": "a: !!python/object/apply:os.system ['true']",
    "infinity": "a: .inf",
    "no mapping": "- a",
    "nothing": "",
    "no yaml": "a: [",
    "a tab": "a:\n\t- b",
    "a nest": "a: " + "[" * 40 + "]" * 40,
}


@pytest.mark.parametrize("bad", BAD)
def test_what_json_does_not_have_is_refused(bad: str) -> None:
    with pytest.raises(InvalidSkill):
        read(BAD[bad])


@pytest.mark.parametrize(
    "content", [b"", b"Body", b"---\na: b\n", b"--- a: b ---", b"---\n\xff\n---"]
)
def test_a_file_without_front_matter_is_refused(content: bytes) -> None:
    with pytest.raises(InvalidSkill, match=r"SKILL\.md"):
        read_front_matter(content)


def test_a_line_is_named_where_yaml_breaks() -> None:
    with pytest.raises(InvalidSkill, match="line 3"):
        read("a: b\nc: 'd")


@given(st.binary(max_size=300))
def test_no_content_breaks_the_reader(content: bytes) -> None:
    for given_ in (content, b"---\n" + content + b"\n---\n"):
        try:
            found = read_front_matter(given_)
        except InvalidSkill:
            continue
        json.dumps(found, allow_nan=False)
