"""Edit members of an object in JSON with comments, and keep every other byte unchanged."""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, cast

from pegboard.config.files.jsonc import Document, Member, Node, parse_jsonc
from pegboard.errors import ConfigError

__all__ = ["Style", "remove_member", "remove_members", "set_member", "set_members"]

_LONGEST_LIST = 80
_NEWLINE = re.compile(r"\r\n|\n|\r")
_BLANKS = re.compile(r"[ \t]*")


class Style(NamedTuple):
    """The formatting of one object in a text."""

    text: str
    newline: str
    unit: str
    """The indentation of its members; empty when they are all on one line."""

    @classmethod
    def of(cls, document: Document, node: Node) -> "Style":
        """Return the formatting of an object, which new members have to follow."""
        text = document.text
        found = _NEWLINE.search(text)
        unit = _unit(document) if _is_spread(text, node) else ""
        return cls(text, "\n" if found is None else found[0], unit)

    def indent_at(self, offset: int) -> str:
        """Return the blanks at the beginning of a line."""
        return _indent_at(self.text, offset)

    def member(self, key: str, value: object, indent: str) -> str:
        """Return the text of a member; the first line is not indented."""
        return f"{_dumped(key)}: {self.value(value, indent)}"

    def value(self, value: object, indent: str) -> str:
        """Return the text of a value: objects on several lines, short lists on one."""
        if not self.unit or not _needs_lines(value):
            return _dumped(value)
        inner = indent + self.unit
        if isinstance(value, Mapping):
            members = cast("Mapping[str, object]", value)
            parts = [self.member(key, it, inner) for key, it in members.items()]
        else:
            parts = [self.value(it, inner) for it in cast("list[object]", value)]
        space = self.newline + inner
        opening, closing = "{}" if isinstance(value, Mapping) else "[]"
        return f"{opening}{space}{f',{space}'.join(parts)}{self.newline}{indent}{closing}"


def _needs_lines(value: object) -> bool:
    if isinstance(value, list | tuple):
        items = cast("list[object]", value)
        return any(map(_needs_lines, items)) or len(_dumped(items)) > _LONGEST_LIST
    return isinstance(value, Mapping) and bool(cast("Mapping[str, object]", value))


def _dumped(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    # Half of a surrogate pair cannot be written to a file, but its escape can.
    return text if _is_utf8(text) else json.dumps(value)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_spread(text: str, node: Node) -> bool:
    """Tell whether the members of an object stand on lines of their own."""
    if not node.members:
        return _NEWLINE.search(text.strip()) is not None or text.strip() == "{}"
    ends = [node.start + 1, *(it.node.end for it in node.members)]
    gaps = zip(ends, node.members, strict=False)
    return any(_NEWLINE.search(text, end, member.start) for end, member in gaps)


def _unit(document: Document) -> str:
    """Return by how much the file indents: what the first member has more than its object."""
    text = document.text
    waiting = [document.root]
    for node in waiting:
        for member in node.members[:1]:
            outer, indent = _indent_at(text, node.start), _indent_at(text, member.start)
            is_below = _NEWLINE.search(text, node.start, member.start) is not None
            if is_below and indent.startswith(outer) and indent != outer:
                return indent[len(outer) :]
        waiting += [it.node for it in node.members if it.node.members]
    return "  "


def _indent_at(text: str, offset: int) -> str:
    line = text.rfind("\n", 0, offset) + 1
    # Only what follows it is looked at, not the whole text once more.
    start = max(line, text.rfind("\r", line, offset) + 1)
    found = _BLANKS.match(text, start)
    return "" if found is None else found[0]


_BOM = "\ufeff"
_LINE_END = re.compile(r"(?:\r\n|\n|\r)\Z")
_COMMENT = re.compile(r"//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_SAME_LINE = re.compile(r"(?:[ \t]*(?://[^\r\n]*|/\*.*?\*/))*", re.DOTALL)


def set_member(text: str, path: Sequence[str], value: object, *, file: str | None = None) -> str:
    """Return the text with this value at a path of keys; missing objects on the path are created.

    An existing value is replaced, and a new one is put after the last member. ``file`` is for
    messages only.

    Raises:
        ConfigError: when the text is not JSON, or a value on the path is not an object.
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
        edits = _addition(document, node, {path[depth]: value})
    else:
        edits = [_replacement(Style.of(document, node), member, value)]
    return bom + _applied(text, edits)


def set_members(
    text: str, path: Sequence[str], members: Mapping[str, object], *, file: str | None = None
) -> str:
    """Return the text with these members in the object at a path of keys.

    The result is that of `set_member` for one after the other, but the text is parsed only once.

    Raises:
        ConfigError: when the text is not JSON, or a value on the path is not an object.
    """
    document = parse_jsonc(text if text.removeprefix(_BOM).strip() else "{}", path=file)
    there = _by_key(document.root.find(path))
    new = {key: it for key, it in members.items() if key not in there}
    for key in [*new][:1]:
        # The formatting of the first new member is that of all the others.
        text = set_member(text, (*path, key), new.pop(key), file=file)
    bom, text = _without_bom(text)
    document = parse_jsonc(text, path=file)
    node = document.root.find(path)
    if node is None or (not there and not new):
        return bom + text
    style, now = Style.of(document, node), _by_key(node)
    edits = [_replacement(style, now[key], it) for key, it in members.items() if key in there]
    return bom + _applied(text, edits + (_addition(document, node, new) if new else []))


def remove_member(text: str, path: Sequence[str]) -> str:
    """Return the text without the member at a path of keys; comments around it stay.

    It undoes `set_member`, except that it does not restore white space in an empty object.

    Raises:
        ConfigError: when the text is not JSON.
    """
    return remove_members(text, path[:-1], path[-1:])


def remove_members(text: str, path: Sequence[str], keys: Collection[str]) -> str:
    """Return the text without these members of the object at a path of keys.

    Raises:
        ConfigError: when the text is not JSON.
    """
    bom, text = _without_bom(text)
    node = parse_jsonc(text).root.find(path)
    if node is None or not node.members:
        return bom + text
    ends = [*(it.start for it in node.members[1:]), node.end - 1]
    kept = [text[: node.start + 1]]
    gap = text[node.start + 1 : node.members[0].start]
    # A repeated key is removed each time; otherwise the other value would become valid.
    unwanted = set(keys)
    for member, end in zip(node.members, ends, strict=True):
        after = text[member.node.end : end]
        if member.key in unwanted:
            gap = _closed(gap, after, is_first=len(kept) == 1, follows=text[end])
        else:
            kept += [gap, text[member.start : member.node.end]]
            gap = after
    return bom + "".join([*kept, gap, text[node.end - 1 :]])


class _Edit(NamedTuple):
    start: int
    end: int
    text: str = ""


def _without_bom(text: str) -> tuple[str, str]:
    return (_BOM, text[1:]) if text.startswith(_BOM) else ("", text)


def _applied(text: str, edits: list[_Edit]) -> str:
    parts: list[str] = []
    done = 0
    for edit in sorted(edits):
        parts += [text[done : edit.start], edit.text]
        done = edit.end
    return "".join([*parts, text[done:]])


def _deepest_object(document: Document, path: Sequence[str], file: str | None) -> tuple[Node, int]:
    """Return the last object on the way that is there, and how many keys lead to it."""
    node = document.root
    for depth, key in enumerate(path):
        if not isinstance(node.value, dict):
            what = f"`{'.'.join(path[:depth])}` must be" if depth else "The file must contain"
            place = document.place(node.start)._asdict()
            raise ConfigError(f"{what} an object.", path=file, **place)
        member = _last_member(node, key)
        if member is None or member.node.value is None or depth == len(path) - 1:
            return node, depth
        node = member.node
    raise ConfigError("A path needs at least one key.")


def _last_member(node: Node, key: str) -> Member | None:
    return _by_key(node).get(key)


def _replacement(style: Style, member: Member, value: object) -> _Edit:
    written = style.value(value, style.indent_at(member.start))
    return _Edit(member.node.start, member.node.end, written)


def _by_key(node: Node | None) -> dict[str, Member]:
    return {} if node is None else {it.key: it for it in node.members}


def _addition(document: Document, node: Node, members: Mapping[str, object]) -> list[_Edit]:
    text = document.text
    style = Style.of(document, node)
    if not node.members:
        ((key, value),) = members.items()
        return _first_member(style, node, key, value)
    last = node.members[-1]
    comma = _comma_between(text, last.node.end, node.end - 1)
    end = _end_of_line_comments(text, last.node.end if comma is None else comma + 1)
    after_comment = _ends_in_line_comment(text, last.node.end, end)
    # With a comma behind the last member, there is one behind the new one as well.
    tail = "" if comma is None else ","
    indent = style.indent_at(last.start)
    space = style.newline + indent if style.unit or after_comment else " "
    written = [f"{space}{style.member(key, it, indent)}" for key, it in members.items()]
    added = ",".join(written) + tail
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


def _closed(before: str, after: str, *, is_first: bool, follows: str) -> str:
    """Return what is left between two members when the one between them goes.

    Args:
        before: what stands in front of it, back to the member before it or to the brace.
        after: what stands behind it, up to the next member or to the brace.
        is_first: whether there is no member before it.
        follows: the character behind all that.
    """
    if is_first and follows == "}" and not _COMMENT.search(before + after):
        return ""
    text = f"{before}0{after}{follows}"
    start, end = len(before), len(before) + 1
    edits = [_Edit(start, end)]
    comma = _comma_between(text, end, end + len(after))
    if comma is not None:
        edits.append(_Edit(comma, comma + 1))
        # A comment between a value and its comma is what follows then.
        end = comma + 1 if not text[end:comma].strip() else end
    elif not is_first:
        comma_before = _comma_between(text, 0, start)
        assert comma_before is not None
        edits.append(_Edit(comma_before, comma_before + 1))
    return _applied(text, [*edits, *_blanks_to_cut(text, start, end)])[:-1]


def _blanks_to_cut(text: str, start: int, end: int) -> list[_Edit]:
    """Return the indentation of a member that goes, or what lies between it and what follows."""
    blanks = _BLANKS.match(text, end)
    follows = end if blanks is None else blanks.end()
    ends_line = text[follows : follows + 1] in ("\n", "\r")
    if not ends_line and text[follows : follows + 1] not in ("}", ""):
        return [_Edit(end, follows)]
    left = len(text[:start].rstrip(" \t"))
    found = _LINE_END.search(text, max(left - 2, 0), left)
    left = left if found is None else found.start()
    if not ends_line and _ends_in_line_comment(text, 0, left):
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
