"""The index as it grows: whatever happened to it, it is as one that was built of what is left."""

import logging
import math
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pegboard.model import CatalogChange, Tool
from pegboard.search.index import bm25_scoring as lexical
from pegboard.search.index import index
from pegboard.search.index import nearest as dense
from pegboard.search.index.index import ToolIndex, caught_up, to_merge
from pegboard.search.index.segment import build_segment, merge_segments
from pegboard.search.index.snapshot import CandidateQuery, Candidates, Snapshot, candidates_of_many
from pegboard.search.index.tail import Tail
from pegboard.search.index.view import Filters, SegmentView
from pegboard.search.methods.index_searcher import plain_weights
from pegboard.search.text.fields import FIELDS, ToolText, find_matches, read_text
from pegboard.search.text.postings import Floats, weigh
from pegboard.search.text.words import query_words, runs_of, split_runs
from tests.search.meanings import HashedMeaning

MEANING = HashedMeaning()
WIDE = HashedMeaning(width=256, regions=300)
WORDS = ["weather", "paris", "mail", "send", "file", "read", "list", "天气", "café"]
texts = st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join)
tools = st.builds(
    Tool,
    name=st.sampled_from([f"tool_{letter}" for letter in "abcdefghij"]),
    description=texts,
    server=st.sampled_from([None, "alpha", "beta"]),
    category=st.sampled_from([None, "sky"]),
    tags=st.lists(st.sampled_from(["hot", "cold"]), max_size=2).map(tuple),
    input_schema=st.fixed_dictionaries(
        {
            "properties": st.dictionaries(
                st.sampled_from(WORDS), st.fixed_dictionaries({"description": texts}), max_size=2
            )
        }
    ),
)
steps = st.lists(
    st.tuples(st.lists(tools, max_size=6), st.lists(st.sampled_from("abcdefghij"), max_size=3)),
    max_size=8,
)
Row = tuple[str, float, float]


@contextmanager
def small_parts() -> Generator[None]:
    """Make few tools behave as very many do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index, "TAIL", 3)
        patch.setattr(index, "BATCH", 3)
        patch.setattr(lexical, "MANY_ROWS", 2)
        patch.setattr(lexical, "SHARE", 10**9)
        patch.setattr(lexical, "DEARER", 0)
        patch.setattr(dense, "SMALL", 4)
        patch.setattr(dense, "SCANNED", 2)
        yield


def fed(changes: Sequence[CatalogChange], meaning: HashedMeaning | None = MEANING) -> ToolIndex:
    found = ToolIndex(meaning)
    for change in changes:
        found.apply(change)
    return found


def built(*all_tools: Tool, meaning: HashedMeaning | None = MEANING) -> ToolIndex:
    return fed([CatalogChange(revision=1, added=all_tools)], meaning)


def ask(
    snapshot: Snapshot, text: str, *, where: Filters | None = None, depth: int = 9
) -> Candidates:
    vectors = MEANING.of_query(text).vectors if snapshot.space is not None else None
    words = plain_weights(query_words(text))
    return snapshot.candidates(words, vectors, where=where or Filters(), depth=depth)


def rows_of(found: Candidates) -> list[Row]:
    """Return name and scores, in an order that mixes both sides."""
    order = found.ranked(found.lexical + found.dense, len(found))
    return [(found.tool(it).name, float(found.lexical[it]), float(found.dense[it])) for it in order]


def changes_of(
    happenings: Sequence[tuple[list[Tool], list[str]]],
) -> tuple[list[CatalogChange], dict[str, Tool]]:
    """Return changes as a catalogue would announce them, and what is left in the end."""
    there: dict[str, Tool] = {}
    changes: list[CatalogChange] = []
    for coming, leaving in happenings:
        gone = {name: there[name] for it in leaving if (name := f"tool_{it}") in there}
        come = {tool.name: tool for tool in coming}
        changes.append(
            CatalogChange(
                revision=len(changes) + 1,
                removed=tuple(tool for name, tool in gone.items() if name not in come),
                changed=tuple(tool for name, tool in come.items() if name in there),
                added=tuple(tool for name, tool in come.items() if name not in there),
            )
        )
        there = {name: tool for name, tool in there.items() if name not in gone} | come
    return changes, there


@pytest.mark.covers("R-REG-32")
@settings(deadline=None)
@given(steps, texts, texts, st.integers(1, 6), st.booleans())
def test_an_index_fed_by_changes_ranks_as_one_built_afresh(
    happenings: list[tuple[list[Tool], list[str]]],
    whole: str,
    clause: str,
    depth: int,
    settled: bool,
) -> None:
    changes, there = changes_of(happenings)
    with small_parts():
        grown, fresh = fed(changes), built(*there.values())
        if settled:
            grown.settle()
        for where in (Filters(), Filters(servers=frozenset({"alpha"}), tags=frozenset({"hot"}))):
            for text in (whole, f"{whole};{clause}"):
                one = ask(grown.snapshot, text, where=where, depth=depth)
                other = ask(fresh.snapshot, text, where=where, depth=depth)
                assert rows_of(one) == rows_of(other)
                assert one.coverage == other.coverage
    assert len(grown.snapshot) == len(there)
    assert {tool.name: tool for tool in grown.snapshot.tools()} == there


@settings(deadline=None)
@given(st.lists(tools, max_size=12, unique_by=lambda tool: tool.name), texts)
def test_scores_are_those_of_the_formula(there: list[Tool], text: str) -> None:
    found = ask(built(*there, meaning=None).snapshot, text, depth=100)
    expected = {tool.name: _score(tool, there, text) for tool in there}
    scores = {name: score for name, score, _ in rows_of(found)}
    assert scores == pytest.approx({name: it for name, it in expected.items() if it}, abs=1e-5)


def _score(tool: Tool, there: list[Tool], text: str) -> float:
    impacts = {it.name: _impacts(read_text(it)) for it in there}
    score = 0.0
    for term, times in query_words(text).counts.items():
        having = sum(term in it for it in impacts.values())
        size = max(len(there), lexical.FEW_TOOLS)
        rarity = math.log(1 + (size - having + 0.5) / (having + 0.5))
        score += math.sqrt(times) * rarity * impacts[tool.name].get(term, 0.0)
    return score


def _impacts(text: ToolText) -> dict[str, float]:
    sums: dict[str, float] = {}
    for name, field in FIELDS.items():
        runs = split_runs(runs_of([getattr(text, name)]))
        found = [it for words in runs for it in words if not (field.prose and it.idle)]
        # The characters of a Chinese word come besides it, and make no text longer.
        length = sum(it.plain != "" for it in found)
        share = field.weight / (1 - field.slope + field.slope * length / field.usual)
        for it in found:
            sums[it.term] = sums.get(it.term, 0.0) + share
    return {term: it * 2.2 / (1.2 + it) for term, it in sums.items()}


@settings(deadline=None)
@given(st.lists(tools, max_size=6, unique_by=lambda tool: tool.name), texts)
def test_matches_are_those_of_the_texts(there: list[Tool], text: str) -> None:
    with small_parts():
        snapshot = built(*there).snapshot
    words = query_words(text)
    rows = range(snapshot.size)
    assert snapshot.matches(rows, words) == [
        find_matches(snapshot.tool(row), words) for row in rows
    ]


@settings(deadline=None)
@given(
    st.lists(tools, min_size=1, max_size=10, unique_by=lambda tool: tool.name),
    texts,
    st.integers(1, 12),
)
def test_an_order_made_piece_by_piece_is_that_of_the_whole(
    there: list[Tool], text: str, likely: int
) -> None:
    found = ask(built(*there).snapshot, text)
    order = list(found.in_order(found.lexical, likely))
    assert order == found.ranked(found.lexical, len(found))


@pytest.mark.covers("R-REG-31")
def test_a_snapshot_never_changes() -> None:
    found = built(Tool(name="send_mail"), Tool(name="read_mail"))
    before = found.snapshot
    found.apply(
        CatalogChange(
            revision=2,
            added=(Tool(name="mail_merge"),),
            changed=(Tool(name="send_mail", description="Now by pigeon."),),
            removed=(Tool(name="read_mail"),),
        )
    )
    assert {name for name, _, _ in rows_of(ask(before, "mail"))} == {"send_mail", "read_mail"}
    now = {name for name, _, _ in rows_of(ask(found.snapshot, "mail"))}
    assert now == {"send_mail", "mail_merge"}
    assert rows_of(ask(found.snapshot, "pigeon", depth=1))[0][0] == "send_mail"


def test_old_news_is_ignored() -> None:
    found = built(Tool(name="send_mail"))
    found.apply(CatalogChange(revision=1, removed=(Tool(name="send_mail"),)))
    assert len(found.snapshot) == 1


def test_what_leaves_was_perhaps_never_there() -> None:
    found = ToolIndex(MEANING)
    found.apply(CatalogChange(revision=1, removed=(Tool(name="ghost"),)))
    found.apply(CatalogChange(revision=2))
    assert rows_of(ask(found.snapshot, "ghost")) == []
    assert found.snapshot.revision == 2


@pytest.mark.parametrize("text", ["", "   ", "😀", "\x00\x1f\ud800", "zzz qqq", "the of"])
def test_queries_that_say_nothing_fit_nothing_by_words(text: str) -> None:
    found = ask(built(Tool(name="send_mail"), meaning=None).snapshot, text)
    assert rows_of(found) == []
    assert (found.best_lexical, found.coverage) == (0.0, 0.0)


def test_a_megabyte_is_a_query() -> None:
    found = ask(built(Tool(name="send_mail"), meaning=None).snapshot, "mail " * 200_000)
    assert rows_of(found)[0][0] == "send_mail"


def test_tools_without_a_word_can_be_there() -> None:
    found = built(Tool(name="a"), Tool(name="b", description="😀"))
    assert len(found.snapshot) == 2
    assert rows_of(ask(found.snapshot, "a")) == [("a", 0.0, 0.0), ("b", 0.0, 0.0)]


def test_coverage_says_how_much_of_a_query_is_found() -> None:
    snapshot = built(Tool(name="send_mail"), Tool(name="read_file")).snapshot
    whole = ask(snapshot, "send mail").coverage
    half = ask(snapshot, "send zebra").coverage
    assert 0 < half < whole <= 1


def test_ties_go_by_name_even_where_not_all_are_looked_at() -> None:
    same = [Tool(name=f"send_{it:03}", description="send mail") for it in range(300)]
    found = ask(built(*reversed(same), meaning=None).snapshot, "mail", depth=5)
    assert [name for name, _, _ in rows_of(found)] == [f"send_{it:03}" for it in range(5)]


@pytest.mark.parametrize("tail", [0, 500])
def test_filters_narrow_the_search_itself(tail: int) -> None:
    """With a tail, all tools are in it; without one, in a segment."""
    many = [
        Tool(name=f"send_{it}", server=f"server_{it % 7}", category="b" if it % 2 else "a")
        for it in range(100)
    ]
    few = Tool(name="send_it", description="x " * 99, server="rare", tags=("hot",), category="a")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index, "BATCH", tail)
        snapshot = built(*many, few).snapshot
    assert bool(snapshot.tail.size) == bool(tail)

    def names(**where: frozenset[str]) -> set[str]:
        found = ask(snapshot, "send", where=Filters(**where), depth=50)
        return {name for name, _, _ in rows_of(found)}

    assert names(servers=frozenset({"rare"})) == {"send_it"}
    assert names(tags=frozenset({"hot", "unknown"})) == {"send_it"}
    assert names(tags=frozenset({"hot"}), categories=frozenset({"b"})) == set()
    assert names(servers=frozenset({"unknown"})) == set()
    assert len(names(servers=frozenset({"server_1", "rare"}))) == 16


@pytest.mark.covers("R-REG-34")
@settings(deadline=None)
@given(st.lists(tools, max_size=10), st.lists(texts, max_size=4), st.integers(1, 5))
def test_many_queries_at_once_get_the_same_answers(
    there: list[Tool], queries: list[str], depth: int
) -> None:
    snapshot = built(*there).snapshot
    asked = [
        CandidateQuery(plain_weights(query_words(text)), vectors, where)
        for text in queries
        for vectors in (None, MEANING.of_query(text).vectors, MEANING.of_query(f"{text};x").vectors)
        for where in (Filters(), Filters(servers=frozenset({"alpha"})))
    ]
    together = candidates_of_many(snapshot, asked, depth=depth)
    assert len(together) == len(asked)
    for one, it in zip(together, asked, strict=True):
        other = snapshot.candidates(it.words, it.vectors, where=it.where, depth=depth)
        assert [row[:2] for row in rows_of(one)] == [row[:2] for row in rows_of(other)]
        assert np.array_equal(one.dense, other.dense)
        assert one.coverage == other.coverage


def test_what_is_near_in_few_directions_is_looked_at_closely() -> None:
    there = [Tool(name=f"{one}_{two}_{it}") for it in range(30) for one in WORDS for two in WORDS]
    snapshot = built(*there, meaning=WIDE).snapshot
    query = WIDE.of_query("send mail;read file").vectors
    found = snapshot.candidates({}, query, depth=20)
    near = WIDE.of_tools([read_text(tool) for tool in snapshot.tools()]) @ query.T
    share = dense.CLAUSE_SHARE
    best = np.sort((1 - share) * near[:, 0] + share * near[:, 1:].max(axis=1))[::-1]
    assert np.sort(found.dense)[::-1] == pytest.approx(best[:20], abs=1e-6)


def test_who_searches_while_others_write_sees_one_moment() -> None:
    """Every change moves all tools to another word; nobody ever sees two words."""
    found = ToolIndex(MEANING)
    names = [f"tool_{it}" for it in range(20)]
    done = threading.Event()
    seen: list[set[str]] = []

    def read() -> None:
        while not done.is_set():
            seen.append({tool.description for tool in found.snapshot.tools()})
            for word in WORDS[:4]:
                rows_of(ask(found.snapshot, word))

    readers = [threading.Thread(target=read) for _ in range(3)]
    with small_parts():
        for reader in readers:
            reader.start()
        for revision in range(60):
            moved = tuple(Tool(name=it, description=WORDS[revision % 4]) for it in names)
            found.apply(CatalogChange(revision=revision, changed=moved))
        done.set()
        for reader in readers:
            reader.join()
        found.settle()
    assert all(len(words) <= 1 for words in seen)
    assert rows_of(ask(found.snapshot, "send", depth=50)) == rows_of(
        ask(built(*found.snapshot.tools()).snapshot, "send", depth=50)
    )


def test_what_goes_while_segments_are_merged_stays_gone() -> None:
    parts = [_segment("a", "b", "c"), _segment("d", "e"), _segment("f")]
    merged = merge_segments([(part.segment, part.alive) for part in parts])
    later = _segment("g")
    now = [parts[0].without([1]), later, parts[2]]  # `d` and `e` went altogether
    views = caught_up(merged, parts, now)
    assert [view.segment for view in views] == [later.segment, merged]
    assert [name for name in "abcdef" if views[1].row_of(name) is not None] == ["a", "c", "f"]


def test_segments_are_merged_so_that_there_are_never_many() -> None:
    segment = _segment("any").segment
    views: list[SegmentView] = []
    for _ in range(1_000):
        views.append(SegmentView(segment, 1))
        while merged := to_merge(views):
            size = sum(view.size for view in merged)
            views = [view for view in views if view not in merged] + [SegmentView(segment, size)]
    assert sum(view.size for view in views) == 1_000
    assert len(views) <= 7


def test_a_segment_that_is_mostly_dead_is_laid_out_anew() -> None:
    full = _segment("a", "b", "c")
    assert to_merge([full]) == []
    dying = full.without([0])
    assert to_merge([dying]) == [dying]


def _segment(*names: str) -> SegmentView:
    there = [Tool(name=name) for name in names]
    segment = build_segment(there, weigh([read_text(tool) for tool in there]), None)
    return SegmentView(segment, len(names))


def test_a_change_that_was_interrupted_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = built(Tool(name="send_mail"), Tool(name="read_mail"))
    append = Tail.append

    def interrupted(*arguments: Any) -> None:
        append(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Tail, "append", interrupted)
        with pytest.raises(KeyboardInterrupt):
            found.apply(CatalogChange(revision=2, changed=(Tool(name="send_mail"),)))
    found.apply(CatalogChange(revision=3, removed=(Tool(name="send_mail"),)))
    found.apply(CatalogChange(revision=4, added=(Tool(name="mail_merge"),)))
    fresh = built(Tool(name="read_mail"), Tool(name="mail_merge"))
    assert rows_of(ask(found.snapshot, "mail")) == rows_of(ask(fresh.snapshot, "mail"))


@pytest.mark.parametrize(
    "broken",
    [lambda: 1 / 0, lambda: np.full((1, 8), np.nan), lambda: np.zeros((3, 2))],
    ids=["error", "no number", "shape"],
)
def test_tools_whose_meaning_nobody_can_tell_are_found_by_their_words(
    broken: Callable[[], Floats], caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(HashedMeaning):
        def of_tools(self, texts: Sequence[ToolText]) -> Floats:
            return broken()

    with caplog.at_level(logging.CRITICAL):
        found = built(Tool(name="send_mail"), meaning=Broken())
    [(name, score, near)] = rows_of(ask(found.snapshot, "mail"))
    assert (name, near) == ("send_mail", 0.0)
    assert score > 0
