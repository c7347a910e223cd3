"""The walks of a call and of a search as pages show them: a sequence diagram and a table."""

from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

from scripts.drawing import box, label, picture
from scripts.walks import Entry, Walk, walks

__all__ = ["LEFT_OUT", "call_drawing", "call_table", "search_drawing", "search_table"]

LEFT_OUT = {
    "model/json_values.py": "It reads JSON objects for many other files.",
    "model/fork_guard.py": "It refuses a hub or a registry in a forked child.",
    "model/schema/defaults.py": "It fills in defaults for `model/schema/schema.py`.",
    "registry/candidate.py": "It holds the function of a tool for `registry/catalog.py`.",
    "search/index/tail.py": "It holds the newest tools of the index.",
    "search/text/postings.py": "It reads lists of numbers of the index.",
    "search/index/view.py": "It is what a search sees of the index.",
    "search/vectors/space.py": "It compares vectors for `search/index/nearest.py`.",
}
"""Files that no table shows, and why."""

_WIDTH, _TOP, _ROW = 190, 64, 27
_LEFT = 90
_MOST = 3
"""How many files a message of the way back names."""


class _Ends(NamedTuple):
    """The two ends of a walk, outside of Pegboard or at its bottom."""

    client: str
    target: str
    sent: str
    answered: str


class _Row(NamedTuple):
    """One message: from which room to which, and its words."""

    start: str
    end: str
    words: str
    is_back: bool = False


_CALL = _Ends("client", "server process", "tools/call, on its pipe", "result")
_SEARCH = _Ends("client", "index", "words and meaning", "hits")


def call_table() -> str:
    """Return the table of a call."""
    return _table(walks()["call"])


def search_table() -> str:
    """Return the table of a search."""
    return _table(walks()["search"])


def call_drawing() -> str:
    """Return the sequence diagram of a call."""
    return _drawing(walks()["call"], _CALL, "The way of a call through Pegboard")


def search_drawing() -> str:
    """Return the sequence diagram of a search."""
    return _drawing(walks()["search"], _SEARCH, "The way of a search through Pegboard")


def _table(walk: Walk) -> str:
    """Return each hop with the other files that it enters, then those of the way back."""
    there = [it for it in walk.entries if not it.is_back]
    back = [it for it in walk.entries if it.is_back]
    lines = [
        f"{len(walk.hops)} hops, {len(walk.files)} files.",
        "",
        "| hop | function | file | enters for the first time |",
        "| --- | --- | --- | --- |",
        f"| | the socket | `{there[0].file}` | {_others(there, 0, there[0].file)} |",
    ]
    lines += [
        f"| {at} | `{hop.function}` | `{hop.file}` | {_others(there, at, hop.file)} |"
        for at, hop in enumerate(walk.hops, start=1)
    ]
    lines += ["", "On the way back:", "", "| hop | function | enters for the first time |"]
    lines += ["| --- | --- | --- |"]
    for at, group in groupby(back, key=lambda it: it.hop):
        shown = _others(list(group), at)
        if shown:
            hop = f"{at} | `{walk.hops[at - 1].function}`" if at else " | the reader of the pipe"
            lines.append(f"| {hop} | {shown} |")
    unseen = [f"`{it}`: {LEFT_OUT[it]}" for it in walk.files if it in LEFT_OUT]
    return "\n".join([*lines, "", "Not in the tables:", "", *(f"- {it}" for it in unseen)])


def _others(entries: list[Entry], hop: int, file: str = "") -> str:
    shown = [it for it in entries if it.hop == hop and it.file != file and it.file not in LEFT_OUT]
    return ", ".join(f"`{it.file}`" for it in shown)


def _drawing(walk: Walk, ends: _Ends, title: str) -> str:
    rooms = [ends.client, *dict.fromkeys(_room(it.file) for it in walk.hops), ends.target]
    places = {room: _LEFT + _WIDTH * at for at, room in enumerate(rooms)}
    rows = list(_rows(walk, ends))
    height = _TOP + _ROW * (len(rows) + 1) + 10
    parts = [
        f'<path d="M{x} {_TOP - 12}V{height - 14}" stroke="#d3e0dc" stroke-width="1.2"/>'
        for x in places.values()
    ]
    parts += [
        box((x - 72, 14, 144, 34), room, kind="core" if room in ends else "box")
        for room, x in places.items()
    ]
    for at, row in enumerate(rows, start=1):
        start, end, y = places[row.start], places[row.end], _TOP + _ROW * at
        parts.append(_message(start, end, y, is_back=row.is_back))
        parts.append(label((min(start, end) + (34 if start == end else 14), y - 5), row.words))
    return picture(_LEFT + _WIDTH * (len(rooms) - 1) + 90, height, title=title, parts=parts)


def _rows(walk: Walk, ends: _Ends) -> Iterator[_Row]:
    """Yield the messages of a walk from top to bottom."""
    before = ends.client
    for at, hop in enumerate(walk.hops, start=1):
        room = _room(hop.file)
        yield _Row(before, room, f"{at} {hop.function}")
        before = room
    yield _Row(before, ends.target, ends.sent)
    yield from _rows_back(walk, ends)


def _rows_back(walk: Walk, ends: _Ends) -> Iterator[_Row]:
    numbered = list(enumerate(walk.hops, start=1))[::-1]
    before, words = ends.target, ends.answered
    seen: set[int] = {0}
    for room, hops in groupby(numbered, lambda it: _room(it[1].file)):
        yield _Row(before, room, words, is_back=True)
        before, words = room, ""
        # What another task does, such as the reader of the pipe, belongs to the first room.
        seen |= {at for at, _ in hops}
        files = [it.file for it in walk.entries if it.is_back and it.hop in seen]
        shown = [_name(it) for it in files if it not in LEFT_OUT]
        if shown:
            more = ", …" if len(shown) > _MOST else ""
            yield _Row(room, room, ", ".join(shown[:_MOST]) + more, is_back=True)
        seen = set()
    yield _Row(before, ends.client, ends.answered, is_back=True)


def _name(file: str) -> str:
    return file.rsplit("/", 1)[-1].removesuffix(".py")


def _room(file: str) -> str:
    return file.split("/", 1)[0]


def _message(start: int, end: int, y: int, *, is_back: bool) -> str:
    dashes = ' stroke-dasharray="4 3"' if is_back else ""
    if start == end:
        path = f"M{start} {y - 12}h24v12h-22"
    else:
        path = f"M{start} {y}H{end - 2 if end > start else end + 2}"
    return f'<path class="line"{dashes} d="{path}"/>'
