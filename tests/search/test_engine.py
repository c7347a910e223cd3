import threading
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegboard.errors import InvalidQueryError, SearcherNotFoundError
from pegboard.model import CatalogChange, Tool
from pegboard.search import Match, Query, SearchEngine, SearchResponse
from tests.search.searchers import Everything, Nothing

TOOLS = [
    Tool(name="send_email", description="Send.", server="post", category="mail", tags=("a", "b")),
    Tool(name="mcp_sky_weather", description="Forecast.", server="sky", category="nature"),
    Tool(name="archive", description="Put away.", tags=("b",)),
]


class Board:
    """A catalogue that is changed by hand."""

    def __init__(self, *tools: Tool) -> None:
        self.revision = len(tools)
        self.news: dict[str, Tool | None] = {tool.name: tool for tool in tools}
        self.followed = 0

    def follow(self) -> "Board":
        self.followed += 1
        return self

    def take(self) -> tuple[int, Mapping[str, Tool | None]]:
        news, self.news = self.news, {}
        return self.revision, news

    def change(self, name: str, tool: Tool | None) -> None:
        self.news[name] = tool
        self.revision += 1


def engine_of(board: Board, kind: type[Everything] = Everything) -> tuple[SearchEngine, Everything]:
    engine, searcher = SearchEngine(board.follow), kind()
    engine.add_searcher("all", lambda: searcher)
    return engine, searcher


def names(answer: SearchResponse) -> list[str]:
    return [hit.tool.name for hit in answer.hits]


def test_nothing_is_built_before_the_first_search() -> None:
    board = Board(*TOOLS)
    engine, searcher = engine_of(board)
    assert board.followed == 0
    assert names(engine.search(Query(text="x"), method="all")) == sorted(it.name for it in TOOLS)
    assert searcher.changes == [CatalogChange(revision=3, added=tuple(TOOLS))]


def test_an_engine_is_warm_from_a_search_to_the_next_change() -> None:
    board = Board(*TOOLS)
    engine, _ = engine_of(board)
    assert not engine.is_warm("all")
    engine.search(Query(text="x"), method="all")
    assert engine.is_warm("all")
    assert not engine.is_warm("regex")
    board.change("archive", None)
    assert not engine.is_warm("all")


@pytest.mark.covers("R-REG-31", "R-REG-32")
def test_changes_are_taken_in_together_by_the_next_search() -> None:
    board = Board(*TOOLS)
    engine, searcher = engine_of(board)
    engine.search(Query(text="x"), method="all")
    new = Tool(name="new")
    again = Tool(name="archive", description="Other.")
    board.change("new", Tool(name="new", description="Overtaken."))
    board.change("new", new)
    board.change("archive", again)
    board.change("send_email", None)
    board.change("passing", None)
    assert names(engine.search(Query(text="x"), method="all")) == [
        "archive",
        "mcp_sky_weather",
        "new",
    ]
    assert searcher.changes[1:] == [
        CatalogChange(revision=8, added=(new,), changed=(again,), removed=(TOOLS[0],))
    ]
    engine.search(Query(text="x"), method="all")
    assert len(searcher.changes) == 2


def test_a_searcher_that_is_opened_later_knows_everything() -> None:
    board = Board(*TOOLS)
    engine, _ = engine_of(board)
    engine.search(Query(text="x"), method="all")
    board.change("archive", None)
    later = Everything()
    engine.add_searcher("later", lambda: later)
    assert names(engine.search(Query(text="x"), method="later")) == [
        "mcp_sky_weather",
        "send_email",
    ]
    assert board.followed == 1


@pytest.mark.parametrize("kind", [Everything, Nothing])
@pytest.mark.parametrize(
    ("text", "name", "confidence"),
    [
        ("send_email", "send_email", 1.0),
        ("Send Email", "send_email", 0.99),
        ("sendemial", "send_email", 0.9),
        ("weather", "mcp_sky_weather", 0.98),
    ],
)
def test_a_tool_that_is_called_by_its_name_comes_first_whatever_the_method(
    kind: type[Everything], text: str, name: str, confidence: float
) -> None:
    engine, _ = engine_of(Board(*TOOLS), kind)
    for limit in (1, 5):
        first, *rest = engine.search(Query(text=text, limit=limit), method="all").hits
        assert first.tool.name == name
        assert first.confidence == confidence
        assert first.matches[0] == Match(field="name", words=(text,))
        assert name not in [hit.tool.name for hit in rest]
        assert len(rest) < limit
        assert all(first.score > hit.score for hit in rest)


def test_a_named_tool_obeys_the_filters() -> None:
    engine, _ = engine_of(Board(*TOOLS), Nothing)
    for narrowed in (
        Query(text="send_email", servers=frozenset({"sky"})),
        Query(text="send_email", categories=frozenset({"nature"})),
        Query(text="archive", tags=frozenset({"a"})),
        Query(text="send_email", visible=lambda tool: tool.name != "send_email"),
    ):
        assert engine.search(narrowed, method="all").hits == ()


def test_use_decides_between_tools_of_the_same_name() -> None:
    tools = [Tool(name=f"{it}.search", server=it) for it in ("alpha", "beta", "gamma")]
    engine, _ = engine_of(Board(*tools), Nothing)
    query = Query(text="search", boost=lambda name: float(name == "beta.search"))
    assert names(engine.search(query, method="all")) == [
        *("beta.search", "alpha.search", "gamma.search")
    ]


def test_parts_tell_of_the_name_when_asked() -> None:
    engine, _ = engine_of(Board(*TOOLS))
    [first, *_] = engine.search(Query(text="archive", explain=True), method="all").hits
    assert first.parts == {"name": 1.0}


@pytest.mark.parametrize("method", ["bm25", "hybrid", "regex"])
@pytest.mark.parametrize("text", ["forecast of sky", "send email"])
def test_who_does_not_ask_where_tools_match_finds_the_same(method: str, text: str) -> None:
    engine, _ = engine_of(Board(*TOOLS))
    told = engine.search(Query(text=text), method=method).hits
    untold = engine.search(Query(text=text, matches=False), method=method).hits
    assert told
    assert all(hit.matches for hit in told)
    assert untold == tuple([msgspec.structs.replace(hit, matches=()) for hit in told])


def test_a_filter_that_names_nothing_there_is_answers_with_what_may_be_meant() -> None:
    engine, _ = engine_of(Board(*TOOLS))

    def hints(**filters: Any) -> tuple[str, ...]:
        answer = engine.search(Query(text="x", **filters), method="all")
        assert answer.hits == ()
        return answer.hints

    assert hints(servers=frozenset({"pots"})) == ("server: post",)
    assert hints(categories=frozenset({"Nature"})) == ("category: nature",)
    assert hints(tags=frozenset({"zzzzzz"})) == ("tag: b", "tag: a")
    assert hints(servers=frozenset({"post"}), categories=frozenset({"nature"})) == (
        "category: other",
    )


def test_facets_follow_the_catalogue() -> None:
    board = Board(*TOOLS)
    engine, _ = engine_of(board)
    engine.search(Query(text="x"), method="all")
    board.change("send_email", Tool(name="send_email", server="mailer"))
    answer = engine.search(Query(text="x", servers=frozenset({"post"})), method="all")
    assert answer.hints == ("server: mailer", "server: sky")


def test_a_limit_beyond_everything_costs_nothing() -> None:
    engine, searcher = engine_of(Board(*TOOLS))
    engine.search(Query(text="x", limit=10**9), method="all")
    assert searcher.asked[0].limit == 3


def test_many_questions_go_to_the_searcher_together() -> None:
    class Counting(Everything):
        batches = 0

        def search_many(self, queries):
            self.batches += 1
            return super().search_many(queries)

    engine, searcher = engine_of(Board(*TOOLS), Counting)
    assert isinstance(searcher, Counting)
    queries = [Query(text="send_email"), Query(text="archive"), Query(text="zzz", limit=2)]
    answers = engine.search_many(queries, method="all")
    assert [names(it)[0] for it in answers] == ["send_email", "archive", "archive"]
    assert searcher.batches == 1
    assert engine.search_many([], method="all") == []


def test_a_budget_keeps_the_first_hits_that_fit() -> None:
    engine, _ = engine_of(Board(*TOOLS))
    query = Query(text="x")
    everything = engine.search(query, method="all", budget=10_000)
    assert len(everything.hits) == 3
    some = engine.search(query, method="all", budget=14)
    assert 0 < len(some.hits) < 3
    assert some.hits == everything.hits[: len(some.hits)]
    none = engine.search(query, method="all", budget=1)
    assert none == SearchResponse(hints=("budget: the first hit needs 6 tokens",))


@pytest.mark.parametrize("method", ["magic", "", None, ["bm25"], 3])
def test_an_unknown_method_is_refused_with_those_that_are_known(method: object) -> None:
    engine, _ = engine_of(Board(*TOOLS))
    with pytest.raises(SearcherNotFoundError) as caught:
        engine.search(Query(text="x"), method=method)  # pyright: ignore[reportArgumentType]
    assert set(caught.value.known) >= {"regex", "bm25", "embedding", "hybrid"}
    assert caught.value.option == "method"
    assert isinstance(caught.value, InvalidQueryError)


def test_a_searcher_that_fails_to_take_in_a_change_is_made_anew(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Fragile(Everything):
        def apply(self, change):
            if self.changes:
                raise ZeroDivisionError
            super().apply(change)

    board, made = Board(*TOOLS), list[Fragile]()
    engine = SearchEngine(board.follow)

    def make() -> Fragile:
        made.append(Fragile())
        return made[-1]

    engine.add_searcher("all", make)
    engine.search(Query(text="x"), method="all")
    board.change("new", Tool(name="new"))
    assert "new" in names(engine.search(Query(text="zzz"), method="all"))
    assert len(made) == 2
    assert [record.message for record in caplog.records] == ["searcher_failed"]


def test_what_is_no_searcher_is_refused_when_it_is_asked() -> None:
    engine = SearchEngine(Board().follow)
    engine.add_searcher("odd", object)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="`apply`"):
        engine.search(Query(text="x"), method="odd")


def test_an_interrupted_search_leaves_nothing_half_done() -> None:
    class Interrupted(Everything):
        def apply(self, change):
            if change.changed:
                raise KeyboardInterrupt
            super().apply(change)

    class Rewinding(Board):
        """As a catalogue does: who follows anew is told of everything."""

        def follow(self):
            self.news = dict(self.everything)
            return super().follow()

        def change(self, name, tool):
            self.everything[name] = tool
            super().change(name, tool)

        everything: dict[str, Tool | None] = {tool.name: tool for tool in TOOLS}

    board = Rewinding()
    engine = SearchEngine(board.follow)
    engine.add_searcher("all", Interrupted)
    engine.search(Query(text="x"), method="all")
    board.change("archive", Tool(name="archive", description="New."))
    with pytest.raises(KeyboardInterrupt):
        engine.search(Query(text="x"), method="all")
    [first, *rest] = engine.search(Query(text="archive"), method="all").hits
    assert first.tool.description == "New."
    assert len(rest) == 2


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.booleans(), st.booleans()), max_size=30))
def test_an_engine_that_follows_knows_what_one_that_starts_afresh_knows(
    steps: list[tuple[str, bool, bool]],
) -> None:
    board, there = Board(), dict[str, Tool]()
    engine, _ = engine_of(board)
    for name, come, look in steps:
        tool = Tool(name=f"tool_{name}", server=name) if come else None
        there.pop(f"tool_{name}", None)
        if tool is not None:
            there[tool.name] = tool
        board.change(f"tool_{name}", tool)
        if look:
            engine.search(Query(text="x"), method="all")
    fresh, _ = engine_of(Board(*there.values()))
    for query in (Query(text="x"), Query(text="tool a"), Query(text="b", servers=frozenset("b"))):
        assert engine.search(query, method="all") == fresh.search(query, method="all")


def test_nobody_misses_what_was_there_when_they_began_to_search() -> None:
    board, lock = Board(), threading.Lock()
    board_change, board_take = board.change, board.take

    def change(name: str, tool: Tool | None) -> None:
        with lock:
            board_change(name, tool)

    def take() -> tuple[int, Mapping[str, Tool | None]]:
        with lock:
            return board_take()

    board.change, board.take = change, take
    engine, _ = engine_of(board)
    failures: list[str] = []

    def add_and_find(who: int) -> None:
        for number in range(100):
            name = f"tool_{who}_{number}x"
            board.change(name, Tool(name=name))
            if name not in names(engine.search(Query(text=name, limit=1), method="all")):
                failures.append(name)

    threads = [threading.Thread(target=add_and_find, args=(who,)) for who in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_hints_for_an_unknown_filter_name_only_what_the_caller_may_know_of() -> None:
    engine, _ = engine_of(Board(*TOOLS), Nothing)
    query = Query(text="x", servers=frozenset({"pots"}), visible=lambda tool: tool.server != "post")
    assert engine.search(query, method="all").hints == ("server: sky",)
    hidden = Query(text="x", servers=frozenset({"post"}), visible=query.visible)
    assert engine.search(hidden, method="all").hints == ("server: sky",)


def test_no_answer_is_longer_than_anybody_reads() -> None:
    engine, searcher = engine_of(Board(*(Tool(name=f"t{it}") for it in range(1200))))
    assert len(engine.search(Query(text="x", limit=1_000_000), method="all").hits) == 1000
    assert [query.limit for query in searcher.asked] == [1000]


class Held(Everything):
    """A searcher that waits in the middle of each change after the first."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.let_go = threading.Event(), threading.Event()

    def apply(self, change: CatalogChange) -> None:
        if self.changes:
            self.begun.set()
            assert self.let_go.wait(5)
        super().apply(change)


@pytest.mark.parametrize("many", [0, 1])
def test_a_search_waits_for_a_small_change_and_not_for_a_large_one(
    monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    monkeypatch.setattr("pegboard.search.engine.MANY", many)
    board, searcher = Board(*TOOLS), Held()
    engine = SearchEngine(board.follow)
    engine.add_searcher("all", lambda: searcher)
    engine.search(Query(text="x"), method="all")
    board.change("new", Tool(name="new"))
    found: list[list[str]] = []

    def search() -> None:
        found.append(names(engine.search(Query(text="x"), method="all")))

    changing = threading.Thread(target=search)
    changing.start()
    assert searcher.begun.wait(5)
    other = threading.Thread(target=search)
    other.start()
    if many == 0:
        other.join(5)
        assert found == [sorted(it.name for it in TOOLS)]
    searcher.let_go.set()
    for thread in (changing, other):
        thread.join(5)
    everything = sorted([*(it.name for it in TOOLS), "new"])
    assert found[-1] == everything
    assert many == 0 or found == [everything, everything]
    assert names(engine.search(Query(text="x"), method="all")) == everything
