"""Laws of the journal: what it says over a file that is older, newer, or edited by hand."""

from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from pegboard.model import Usage
from pegboard.storage.json_file.content import JsonContent
from pegboard.storage.json_file.journal import (
    Change,
    Counted,
    Forgotten,
    Put,
    Removed,
    Saved,
    encode_frame,
    encode_header,
    read_frames,
    read_header,
)

NAMES = ["a", "b", "c"]
TEXTS = [b'{"name":"x","description":"%d"}' % number for number in range(3)]
EDITS = [b'{"name":"x","description":"by hand %d"}' % number for number in range(2)]
USAGES = [Usage(use_frequency=number) for number in (1, 2)]
VALUES = [b"1", b"2", b'{"deep":[1.10]}']

Parts = dict[str, Any]
Step = tuple[str, str, Any]

names = st.sampled_from(NAMES)
contents = st.fixed_dictionaries(
    {
        "tools": st.dictionaries(names, st.sampled_from(TEXTS)),
        "uses": st.dictionaries(names, st.sampled_from(USAGES)),
        "values": st.dictionaries(names, st.sampled_from(VALUES)),
    }
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("save"), names, st.sampled_from(TEXTS)),
        st.tuples(st.just("delete"), names, st.none()),
        st.tuples(st.just("count"), names, st.sampled_from([None, *USAGES])),
        st.tuples(st.just("put"), names, st.sampled_from(VALUES)),
        st.tuples(st.just("forget"), names, st.none()),
    ),
    max_size=12,
)


def content_of(parts: Parts) -> JsonContent:
    content = JsonContent()
    content.tools = dict(parts["tools"])
    content.uses = dict(parts["uses"])
    content.values = {"room": dict(parts["values"])} if parts["values"] else {}
    return content


def changes_of(step: Step, content: JsonContent) -> list[Change]:
    kind, name, what = step
    match kind:
        case "save":
            return [Saved(name, content.revision(name), msgspec.Raw(what))]
        case "delete":
            found, used = content.revision(name), content.uses.get(name)
            gone: list[Change] = [] if used is None else [Counted(name, used, None)]
            return gone if found is None else [*gone, Removed(name, found)]
        case "count":
            return [Counted(name, content.uses.get(name), what)]
        case "put":
            before = content.value_revision("room", name)
            return [Put("room", name, before, msgspec.Raw(what))]
        case _:
            before = content.value_revision("room", name)
            return [] if before is None else [Forgotten("room", name, before)]


def written(content: JsonContent, todo: list[Step]) -> tuple[list[list[Change]], JsonContent]:
    """What a journal says after some steps, and what is there then."""
    content = deepcopy(content)
    journal: list[list[Change]] = []
    for step in todo:
        journal.append(changes_of(step, content))
        for change in journal[-1]:
            content.apply(change)
    return journal, content


def state_of(content: JsonContent) -> tuple[Any, ...]:
    return list(content.tools.items()), content.uses, content.values


def flat(journal: list[list[Change]]) -> list[Change]:
    return [change for changes in journal for change in changes]


@given(contents, steps)
def test_a_journal_over_its_file_gives_what_was_there(parts: Parts, todo: list[Step]) -> None:
    base = content_of(parts)
    journal, live = written(base, todo)
    for change in flat(journal):
        base.apply(change)
    assert state_of(base) == state_of(live)


@given(contents, steps)
def test_a_journal_that_the_file_holds_already_changes_nothing(
    parts: Parts, todo: list[Step]
) -> None:
    journal, live = written(content_of(parts), todo)
    again = deepcopy(live)
    again.tools_changed = again.state_changed = False
    again.merge(flat(journal))
    assert state_of(again) == state_of(live)


@given(contents, steps, st.data())
def test_a_journal_of_which_the_file_holds_the_first_part_leads_to_the_same_end(
    parts: Parts, todo: list[Step], data: st.DataObject
) -> None:
    journal, live = written(content_of(parts), todo)
    number = data.draw(st.integers(0, len(todo)))
    _, partly = written(content_of(parts), todo[:number])
    partly.merge(flat(journal))
    assert (partly.tools, partly.uses, partly.values) == (live.tools, live.uses, live.values)


@given(
    contents,
    steps,
    st.dictionaries(names, st.sampled_from(EDITS)),
    st.dictionaries(names, st.just(Usage(use_frequency=77))),
    st.dictionaries(names, st.just(b'"by hand"')),
)
def test_an_edit_by_hand_wins_and_everything_else_is_kept(
    parts: Parts,
    todo: list[Step],
    tools: dict[str, bytes],
    uses: dict[str, Usage],
    values: dict[str, bytes],
) -> None:
    journal, live = written(content_of(parts), todo)
    edited = content_of(
        {
            "tools": parts["tools"] | tools,
            "uses": parts["uses"] | uses,
            "values": parts["values"] | values,
        }
    )
    edited.merge(flat(journal))
    assert edited.tools == live.tools | tools
    assert edited.uses == live.uses | uses
    assert edited.values.get("room", {}) == live.values.get("room", {}) | values


@given(contents, steps, st.sets(names))
def test_what_was_deleted_by_hand_stays_deleted_unless_we_had_deleted_it_too(
    parts: Parts, todo: list[Step], unwanted: set[str]
) -> None:
    journal, live = written(content_of(parts), todo)
    ours = {it.name for it in flat(journal) if isinstance(it, Removed)}
    unwanted = (unwanted & parts["tools"].keys()) - ours
    kept = {name: it for name, it in parts["tools"].items() if name not in unwanted}
    edited = content_of(parts | {"tools": kept})
    edited.merge(flat(journal))
    expected = {name: it for name, it in live.tools.items() if name not in unwanted}
    assert edited.tools == expected


@given(contents, steps, st.data())
def test_a_torn_line_and_what_follows_is_recognised(
    parts: Parts, todo: list[Step], data: st.DataObject
) -> None:
    journal, _ = written(content_of(parts), todo)
    header = encode_header((None, (1, 2, 3)), None)
    lines = [encode_frame(changes) for changes in journal]
    whole = header + b"".join(lines)
    torn = whole[: data.draw(st.integers(0, len(whole)))]
    found, start = read_header(torn)
    if found is None:
        assert len(torn) < len(header)
        return
    assert found.files == (None, (1, 2, 3))
    read = [changes for changes, _ in read_frames(torn, start) if changes is not None]
    assert [encode_frame(changes) for changes in read] == lines[: len(read)]
    assert len(header) + sum(map(len, lines[: len(read) + 1])) > len(torn) or len(read) == len(
        lines
    )


def test_a_change_of_one_bit_is_recognised() -> None:
    moment = datetime(2026, 11, 16, 2, tzinfo=UTC)
    change = Counted("a", None, Usage(use_frequency=3, last_used=moment))
    line = encode_frame([change])
    assert list(read_frames(line, 0)) == [([change], len(line))]
    for place in range(len(line)):
        spoiled = line[:place] + bytes([line[place] ^ 1]) + line[place + 1 :]
        assert all(changes is None for changes, _ in read_frames(spoiled, 0))
