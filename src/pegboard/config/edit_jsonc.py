"""Change one member of an object in JSON with comments, and leave every other byte as it is."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from pegboard.config.jsonc import Document, Member, Node, parse_jsonc
from pegboard.config.jsonc_style import Style
from pegboard.errors import ConfigError

__all__ = ["remove_member", "set_member"]

_BOM = "\ufeff"
_INDENT_BEFORE = re.compile(r"(?:\r\n|\n|\r)?[ \t]*\Z")
_BLANKS = re.compile(r"[ \t]*")
_COMMENT = re.compile(r"//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_SAME_LINE = re.compile(r"(?:[ \t]*(?://[^\r\n]*|/\*.*?\*/))*", re.DOTALL)


def set_member(text: str, path: Sequence[str], value: object, *, file: str | None = None) -> str:
    """Return the text with this value at a path of keys; objects that lack on the way are made.

    A value that is there already is replaced, a new one is put behind the last member; ``file`` is
    for messages only.

    Raises:
        ConfigError: when the text is not JSON, or something on the way is no object.
    """
    bom, text = _without_bom(text)
    if not text.strip():
        text = f"{{}}{text or chr(10)}"
    document = parse_jsonc(text, path=file)
    node, depth = _deepest_object(document, path, file)
    member = _last_member(node, path[depth])
    for key in reversed(path[depth + 1 :]):
        value = {key: value}
    if member is None:
        edits = _addition(document, node, path[depth], value)
    else:
        style = Style.of(document, node)
        written = style.value(value, style.indent_at(member.start))
        edits = [_Edit(member.node.start, member.node.end, written)]
    return bom + _applied(text, edits)


def remove_member(text: str, path: Sequence[str]) -> str:
    """Return the text without the member a path of keys leads to; comments around it stay.

    It undoes `set_member`, except that blank space alone in an object is not brought back.

    Raises:
        ConfigError: when the text is not JSON.
    """
    bom, text = _without_bom(text)
    while True:
        node = parse_jsonc(text).root.find(path[:-1])
        member = None if node is None else _last_member(node, path[-1])
        if node is None or member is None:
            return bom + text
        # A key that stands there twice would come to life again.
        text = _applied(text, _removal(text, node, node.members.index(member)))


class _Edit(NamedTuple):
    start: int
    end: int
    text: str = ""


def _without_bom(text: str) -> tuple[str, str]:
    return (_BOM, text[1:]) if text.startswith(_BOM) else ("", text)


def _applied(text: str, edits: list[_Edit]) -> str:
    for edit in sorted(edits, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def _deepest_object(document: Document, path: Sequence[str], file: str | None) -> tuple[Node, int]:
    """Return the last object on the way that is there, and how many keys lead to it."""
    node = document.root
    for depth, key in enumerate(path):
        if not isinstance(node.value, dict):
            what = f"`{'.'.join(path[:depth])}` must be" if depth else "The file must hold"
            place = document.place(node.start)._asdict()
            raise ConfigError(f"{what} an object.", path=file, **place)
        member = _last_member(node, key)
        if member is None or member.node.value is None or depth == len(path) - 1:
            return node, depth
        node = member.node
    raise ConfigError("A path needs at least one key.")


def _last_member(node: Node, key: str) -> Member | None:
    return next((it for it in reversed(node.members) if it.key == key), None)


def _addition(document: Document, node: Node, key: str, value: object) -> list[_Edit]:
    text = document.text
    style = Style.of(document, node)
    if not node.members:
        return _first_member(style, node, key, value)
    last = node.members[-1]
    comma = _comma_between(text, last.node.end, node.end - 1)
    end = _end_of_line_comments(text, last.node.end if comma is None else comma + 1)
    after_comment = _ends_in_line_comment(text, last.node.end, end)
    # With a comma behind the last member, there is one behind the new one as well.
    tail = "" if comma is None else ","
    indent = style.indent_at(last.start)
    space = style.newline + indent if style.unit or after_comment else " "
    added = f"{space}{style.member(key, value, indent)}{tail}"
    edits = [_Edit(end, end, added)]
    if comma is None:
        edits.append(_Edit(last.node.end, last.node.end, ","))
        if end == last.node.end:
            edits = [_Edit(end, end, f",{added}")]
    return edits


def _first_member(style: Style, node: Node, key: str, value: object) -> list[_Edit]:
    text, inside = style.text, style.text[node.start + 1 : node.end - 1]
    outer = style.indent_at(node.start)
    indent = outer + style.unit
    written = style.member(key, value, indent)
    around = (style.newline + indent, style.newline + outer) if style.unit else ("", "")
    if not inside.strip():
        return [_Edit(node.start + 1, node.end - 1, written.join(around))]
    end = _end_of_line_comments(text, node.start + 1)
    after_comment = _ends_in_line_comment(text, node.start + 1, end)
    space = style.newline + indent if style.unit or after_comment else " "
    return [_Edit(end, end, space + written)]


def _removal(text: str, node: Node, index: int) -> list[_Edit]:
    member = node.members[index]
    is_last = index == len(node.members) - 1
    following = node.end - 1 if is_last else node.members[index + 1].start
    comma = _comma_between(text, member.node.end, following)
    before = node.members[index - 1].node.end if index else node.start + 1
    edits = [_Edit(member.start, member.node.end)]
    end = member.node.end
    if comma is not None:
        edits.append(_Edit(comma, comma + 1))
        # A comment between a value and its comma is what follows then.
        end = comma + 1 if not text[end:comma].strip() else end
    elif index:
        comma_before = _comma_between(text, before, member.start)
        assert comma_before is not None
        edits.append(_Edit(comma_before, comma_before + 1))
    if len(node.members) == 1 and not _COMMENT.search(_around(text, node, member)):
        return [_Edit(node.start + 1, node.end - 1)]
    return [*edits, *_blanks_to_cut(text, (before, member.start), end)]


def _around(text: str, node: Node, member: Member) -> str:
    return text[node.start + 1 : member.start] + text[member.node.end : node.end - 1]


def _blanks_to_cut(text: str, before: tuple[int, int], end: int) -> list[_Edit]:
    """Return the indentation of a member that goes, or what lies between it and what follows."""
    since, start = before
    blanks = _BLANKS.match(text, end)
    follows = end if blanks is None else blanks.end()
    ends_line = text[follows : follows + 1] in ("\n", "\r")
    if not ends_line and text[follows : follows + 1] not in ("}", ""):
        return [_Edit(end, follows)]
    found = _INDENT_BEFORE.search(text, since, start)
    left = start if found is None else found.start()
    if not ends_line and _ends_in_line_comment(text, since, left):
        # Without this line break, the brace would become part of the comment.
        return []
    return [_Edit(left, start)]


def _comma_between(text: str, start: int, end: int) -> int | None:
    """Return where the comma is that stands outside of comments."""
    blanked = _COMMENT.sub(lambda it: " " * len(it[0]), text[start:end])
    found = blanked.find(",")
    return None if found < 0 else start + found


def _end_of_line_comments(text: str, start: int) -> int:
    """Return where the comments end that stand behind something on its line."""
    found = _SAME_LINE.match(text, start)
    return start if found is None else found.end()


def _ends_in_line_comment(text: str, start: int, end: int) -> bool:
    found = _COMMENT.findall(text, start, end)
    return bool(found) and found[-1].startswith("//") and text[start:end].endswith(found[-1])
