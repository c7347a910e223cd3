import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegboard.config import Node, parse_jsonc, read_jsonc
from pegboard.errors import ConfigError

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
FILLING = st.sampled_from(
    ["", " ", "\n", "\t\r\n", "// a, {comment]\n", "/* \" ' */", "/**/", "/* a\n b */ // c\n"]
)


def test_comments_and_trailing_commas_are_allowed() -> None:
    text = """// top
    {
      /* several
         lines */
      "a": [1, 2, /* three */ 3,], // after
      "url": "http://no//comment/*here*/",
    }
    // the end"""
    assert parse_jsonc(text).root.value == {"a": [1, 2, 3], "url": "http://no//comment/*here*/"}


def test_every_key_and_value_has_its_place() -> None:
    document = parse_jsonc('{\n  "a": {"b": [10, "é", {"c": null}]}\n}')
    found = document.root.find(("a", "b", 2, "c"))
    assert found is not None
    assert document.place(found.start) == (2, 30)
    assert document.text[found.start : found.end] == "null"
    (member,) = document.root.members
    assert document.text[member.start : member.end] == '"a"'
    assert document.place(member.start) == (2, 3)
    assert document.root.find(("a", "x")) is None
    assert document.root.find(("a", "b", 7)) is None
    assert document.root.find(("a", "b", 0, "c")) is None


def test_the_last_of_two_equal_keys_counts_and_the_second_is_noted() -> None:
    document = parse_jsonc('{"a": 1,\n "a": 2, "b": {"a": 3}}')
    assert document.root.value == {"a": 2, "b": {"a": 3}}
    assert [document.place(member.start) for member in document.duplicates] == [(2, 2)]
    assert [member.key for member in document.root.members] == ["a", "a", "b"]
    found = document.root.find(("a",))
    assert found is not None
    assert found.value == 2


@pytest.mark.parametrize(
    ("text", "line", "column", "expected"),
    [
        ("", 1, 1, "a value. The file is empty."),
        ("[", 1, 2, "The file ends here"),
        ("// only a comment", 1, 18, "a value"),
        ("{", 1, 2, "a key"),
        ('{"a"}', 1, 5, '":"'),
        ('{"a": }', 1, 7, "a value"),
        ('{"a": 1 "b": 2}', 1, 9, '"," or "}"'),
        ('{"a": 1]', 1, 8, '"," or "}"'),
        ("[1 2]", 1, 4, '"," or "]"'),
        ("[1,,2]", 1, 4, "a value"),
        ("{,}", 1, 2, "a key"),
        ("{'a': 1}", 1, 2, "double quotes"),
        ("[\n1,\n  nope]", 3, 3, "a value"),
        ('["\n"]', 1, 3, "character"),
        (r'["\x"]', 1, 3, "escape"),
        ('["abc', 1, 2, "closing quote"),
        ("{} {}", 1, 4, "the end of the file"),
        ("[1] /* open", 1, 5, "never closed"),
        ("[01]", 1, 3, '"," or "]"'),
        ("[NaN]", 1, 2, "a value"),
        ("[-]", 1, 2, "a value"),
        ("[1" + "0" * 5000 + "]", 1, 2, "reasonable length"),
        ("[" * 101, 1, 101, "100 levels"),
        ("[" * 100_000, 1, 101, "100 levels"),
    ],
)
def test_a_syntax_error_says_where_and_what_was_expected(
    text: str, line: int, column: int, expected: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_jsonc(text, path="mcp.json")
    assert (caught.value.line, caught.value.column) == (line, column)
    assert caught.value.path == "mcp.json"
    assert expected in caught.value.problem
    assert caught.value.problem.endswith((".", '".'))


@pytest.mark.parametrize(
    "text", ['{"token": "sk-verysecret}', '{"token": sk-verysecret}', '{"a": "sk-verysecret\\q"}']
)
def test_a_syntax_error_never_quotes_the_file(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_jsonc(text)
    error: BaseException | None = caught.value
    while error is not None:
        assert "verysecret" not in str(error) + repr(vars(error))
        error = error.__cause__ or error.__context__


def test_a_document_does_not_show_its_text() -> None:
    document = parse_jsonc('"secret"')
    assert "secret" not in repr(document)
    assert "secret" not in repr(list(document.__rich_repr__()))


def test_a_byte_order_mark_is_accepted() -> None:
    assert parse_jsonc(b"\xef\xbb\xbf{}").root.value == {}
    assert parse_jsonc("\ufeff{}").root.value == {}


def test_what_is_not_utf8_is_refused_with_its_line() -> None:
    with pytest.raises(ConfigError, match="UTF-8") as caught:
        parse_jsonc(b'{\n"a": "\xff"}')
    assert caught.value.line == 2


def test_a_file_over_ten_megabytes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_bytes(b"[" + b" " * 10_000_000 + b"]")
    with pytest.raises(ConfigError, match="10 MB"):
        read_jsonc(path)


def test_a_file_that_cannot_be_read_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read") as caught:
        read_jsonc(tmp_path)
    assert caught.value.path == str(tmp_path)


@given(VALUES, st.sampled_from([None, 2]), st.booleans())
def test_it_agrees_with_the_standard_parser(value: Any, indent: int | None, ascii: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii)
    assert same(parse_jsonc(text).root.value, json.loads(text))


@given(st.text(alphabet='{}[]",:0123456789.eE+-truefalsn\\u \n', max_size=30))
def test_it_accepts_no_text_that_the_standard_parser_refuses(text: str) -> None:
    try:
        expected = json.loads(text)
    except ValueError:
        expected = None
    try:
        found = parse_jsonc(text).root.value
    except ConfigError:
        assert expected is None
    else:
        # Only a comma before a closing bracket is more than JSON allows.
        assert same(found, expected) or "," in text


@given(VALUES, st.data())
def test_comments_and_trailing_commas_anywhere_change_nothing(value: Any, data: Any) -> None:
    text = written(value, lambda: data.draw(FILLING), lambda: data.draw(st.sampled_from(["", ","])))
    document = parse_jsonc(text)
    assert same(document.root.value, value)
    for node in nodes(document.root):
        assert same(parse_jsonc(text[node.start : node.end]).root.value, node.value)


def written(value: Any, fill: Any, comma: Any) -> str:
    if isinstance(value, dict):
        members = [
            f"{fill()}{json.dumps(key)}{fill()}:{written(it, fill, comma)}"
            for key, it in value.items()
        ]
        end = comma() if members else ""
        inside = ",".join(members) + end
        return f"{fill()}{{{inside}{fill()}}}{fill()}"
    if isinstance(value, list):
        end = comma() if value else ""
        inside = ",".join(written(it, fill, comma) for it in value) + end
        return f"{fill()}[{inside}{fill()}]{fill()}"
    return f"{fill()}{json.dumps(value)}{fill()}"


def nodes(node: Node) -> list[Node]:
    children = [*node.items, *(member.node for member in node.members)]
    return [node, *(found for child in children for found in nodes(child))]


def same(one: Any, other: Any) -> bool:
    """Compare types, too: 1 is not 1.0, and True is not 1."""
    return repr(one) == repr(other)


@given(VALUES)
def test_plain_json_has_the_value_and_positions_that_the_same_text_with_a_comment_has(
    value: object,
) -> None:
    text = json.dumps(value)
    plain, commented = parse_jsonc(text), parse_jsonc(f"{text} // a comment")
    assert plain.value == commented.value == value
    assert plain.root == commented.root
    assert plain.duplicates == commented.duplicates == ()


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", "[" * 101 + "]" * 101, "1" * 5000])
def test_what_only_the_quick_way_would_read_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_jsonc(text)
