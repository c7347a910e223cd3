"""One section of a YAML file: read as a YAML library reads it, and nothing else is touched."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pegboard.clients.client_file import entries_of, with_entries, without_entries
from pegboard.clients.yaml_section import read_yaml
from pegboard.errors import ConfigError
from tests.clients.conftest import golden

PATH = Path("config.yaml")
SECTION = ("extensions",)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
scalars = st.none() | st.booleans() | st.integers(-(10**9), 10**9) | texts
entries = st.dictionaries(
    texts,
    scalars | st.lists(scalars, max_size=4) | st.dictionaries(texts, scalars, max_size=3),
    max_size=5,
)


@given(st.dictionaries(texts, entries, min_size=1, max_size=4))
def test_what_is_written_is_what_a_yaml_library_reads(many: dict[str, dict[str, Any]]) -> None:
    text = "A: 1  # one\n# two\n"
    written = with_entries(PATH, text, SECTION, many)
    assert written.startswith(text)
    assert yaml.safe_load(written) == {"A": 1, "extensions": many}
    assert entries_of(PATH, written, SECTION) == many
    assert without_entries(PATH, written, SECTION, list(many)) == f"{text}extensions: {{}}\n"


@given(entries, st.booleans(), st.integers(2, 4))
def test_what_a_yaml_library_writes_is_read_alike(
    entry: dict[str, Any], is_flow: bool, indent: int
) -> None:
    text = yaml.safe_dump(
        {"extensions": {"one": entry}},
        default_flow_style=None if is_flow else False,
        indent=indent,
        allow_unicode=True,
        width=10_000,
    )
    found = read_yaml(text, "extensions", path="config.yaml")["extensions"]["one"]
    # An unusual form is left alone, and never understood in another way.
    assert found == entry or isinstance(found, str)


def test_the_file_of_goose_is_read_as_a_yaml_library_reads_it() -> None:
    text = golden("goose").decode()
    found = entries_of(PATH, text, SECTION)
    expected = yaml.safe_load(text)["extensions"]
    assert isinstance(found.pop("stream"), str)
    del expected["stream"]
    # What only people read is not kept.
    for some in (found, expected):
        del some["wiki-search"]["description"]
    assert found == expected


@pytest.mark.parametrize(
    "text",
    [
        "extensions: {a: {type: stdio}}\n",
        "extensions: &all\n  a: {}\n",
        "extensions: *all\n",
        "extensions:\n  - a\n",
        "extensions:\n  a: {}\nextensions:\n  b: {}\n",
        "extensions:\n  a: {}\n  a: {}\n",
        "extensions:\n   a: {}\n  b: {}\n",
        "extensions:\n\ta: {}\n",
        "extensions:\n  ? a\n  : {}\n",
        "- extensions\n",
        "{extensions: {}}\n",
        "a: 1\n---\nextensions: {}\n",
        "extensions: text\n",
    ],
)
def test_a_file_in_another_form_is_refused_and_not_changed(text: str) -> None:
    for change in (
        lambda: entries_of(PATH, text, SECTION),
        lambda: with_entries(PATH, text, SECTION, {"pegboard": {"cmd": "x"}}),
        lambda: without_entries(PATH, text, SECTION, ["a"]),
    ):
        with pytest.raises(ConfigError, match="by hand") as caught:
            change()
        assert caught.value.line is not None


@pytest.mark.parametrize(
    "entry",
    [
        "a: *other",
        "a:\n    <<: *other",
        "a:\n    cmd: !tag x",
        "a:\n    cmd: one\n      two",
        "a:\n    env: {X: 1}",
        "a:\n    items:\n    - x: 1",
        'a:\n    cmd: "\\x41"',
        "a:\n    cmd: >-\n      x",
    ],
)
def test_an_entry_in_another_form_is_text_and_stays_as_it_is(entry: str) -> None:
    text = f"extensions:\n  {entry}\n  # about b\n  b:\n    cmd: b\n"
    assert isinstance(entries_of(PATH, text, SECTION)["a"], str)
    written = with_entries(PATH, text, SECTION, {"c": {"cmd": "c"}})
    assert written == f"{text}  c:\n    cmd: c\n"
    assert without_entries(PATH, written, SECTION, ["c"]) == text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "extensions:\n  c:\n    cmd: c\n"),
        ("A: 1", "A: 1\nextensions:\n  c:\n    cmd: c\n"),
        ("extensions: {}  # none\nA: 1\n", "extensions:  # none\n  c:\n    cmd: c\nA: 1\n"),
        ("extensions:\n\n# end\nA: 1\n", "extensions:\n  c:\n    cmd: c\n\n# end\nA: 1\n"),
        ("extensions:\n    a: {}", "extensions:\n    a: {}\n    c:\n      cmd: c\n"),
    ],
)
def test_an_entry_comes_behind_the_others(before: str, after: str) -> None:
    assert with_entries(PATH, before, SECTION, {"c": {"cmd": "c"}}) == after
