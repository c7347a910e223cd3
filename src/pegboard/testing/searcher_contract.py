"""SearcherContract: the tests that every `Searcher` must pass."""

# ruff: noqa: D102 - the names of the tests are sentences

import threading
from collections.abc import Iterable

import pytest

from pegboard.errors import InvalidQueryError
from pegboard.model import CatalogChange, Tool
from pegboard.search import Query, Searcher, SearchResponse

__all__ = ["SearcherContract"]

FIELDS = {"name", "title", "description", "parameters", "tags", "category", "server", "meaning"}
STRANGE = [
    "\0",
    "\x07\x1b[0m",
    "\ud800",
    "\N{GRINNING FACE}" * 50,
    "the of and to",
    "ก็ 日本語 한국어 עברית",
    "' OR 1=1 --",
    "{}[]()",
    "mail " * 200_000,
    "\N{COMBINING ACUTE ACCENT}" * 1000,
]


def _tool(name: str, description: str, where: str) -> Tool:
    server, category, tag = where.split()
    schema = {"type": "object", "properties": {"subject": {"type": "string"}}}
    return Tool(
        name=name,
        description=description,
        server=server,
        category=category,
        tags=(tag,),
        input_schema=schema,
    )


TOOLS = (
    _tool("send_email", "Send an email message to a person.", "post communication mail"),
    _tool("get_weather", "Tell the weather forecast of a city.", "sky nature forecast"),
    _tool("create_invoice", "Create an invoice for a customer.", "bank money billing"),
    _tool("translate_text", "Translate a text into another language.", "babel language words"),
    _tool("resize_image", "Change the size of a picture.", "atelier pictures photo"),
    _tool("restart_server", "Restart a machine in the data centre.", "cloud operations machine"),
)


class SearcherContract:
    """Tests that a `Searcher` does what the protocol says.

    Subclass it in your tests and write `open`::

        class TestMySearcher(SearcherContract):
            def open(self):
                return MySearcher()
    """

    def open(self) -> Searcher:
        """Return a searcher without tools; write this in your class."""
        raise NotImplementedError(
            "Write `def open(self) -> Searcher` in your subclass of SearcherContract; it returns a "
            "searcher without tools."
        )

    @pytest.fixture
    def searcher(self) -> Searcher:
        """A searcher with a few tools."""
        return self.fed(TOOLS)

    def fed(self, tools: Iterable[Tool]) -> Searcher:
        """Return a new searcher with these tools."""
        searcher = self.open()
        searcher.apply(CatalogChange(revision=1, added=tuple(tools)))
        return searcher

    def test_it_is_a_searcher(self) -> None:
        assert isinstance(self.open(), Searcher)

    def test_where_there_are_no_tools_nothing_is_found(self) -> None:
        assert self.open().search(Query(text="send email")).hits == ()
        assert self.open().search_many([]) == []

    @pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
    def test_a_tool_is_found_first_by_the_words_of_its_name(
        self, searcher: Searcher, tool: Tool
    ) -> None:
        [first, *_] = searcher.search(Query(text=tool.name.replace("_", " "))).hits
        assert first.tool is tool

    def test_a_tool_is_found_by_what_is_said_of_it(self, searcher: Searcher) -> None:
        assert "get_weather" in names(searcher.search(Query(text="weather forecast")))

    def test_hits_come_best_first_each_once_and_say_why(self, searcher: Searcher) -> None:
        hits = searcher.search(Query(text="email", limit=10, abstain=False)).hits
        assert len({hit.tool.name for hit in hits}) == len(hits) > 0
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        for hit in hits:
            assert 0.0 <= hit.confidence <= 1.0
            assert hit.matches
            assert {match.field for match in hit.matches} <= FIELDS

    def test_nonsense_is_not_answered_with_confidence(self, searcher: Searcher) -> None:
        hits = searcher.search(Query(text="qzxv wkkj ploomfgh")).hits
        assert all(hit.confidence < 0.5 for hit in hits)

    @pytest.mark.parametrize("limit", [1, 2, 1_000_000])
    def test_there_are_no_more_hits_than_the_limit_allows(
        self, searcher: Searcher, limit: int
    ) -> None:
        answer = searcher.search(Query(text="email", limit=limit, abstain=False))
        assert 1 <= len(answer.hits) <= limit

    def test_the_same_question_has_the_same_answer(self, searcher: Searcher) -> None:
        query = Query(text="create a message", limit=10, abstain=False)
        assert searcher.search(query) == searcher.search(query)

    def test_many_questions_are_answered_as_one_by_one(self, searcher: Searcher) -> None:
        texts = ["send email", "weather", "qzxv wkkj", "invoice", "send email"]
        queries = [Query(text=text, limit=3) for text in texts]
        queries.append(Query(text="email", servers=frozenset({"post"})))
        alone = [names(searcher.search(query)) for query in queries]
        assert [names(answer) for answer in searcher.search_many(queries)] == alone

    def test_parts_are_given_only_if_asked_for(self, searcher: Searcher) -> None:
        [hit, *_] = searcher.search(Query(text="send email", explain=True)).hits
        assert hit.parts
        [hit, *_] = searcher.search(Query(text="send email")).hits
        assert hit.parts is None

    def test_an_added_tool_is_found_at_once(self, searcher: Searcher) -> None:
        new = _tool("book_flight", "Book a flight.", "air travel plane")
        searcher.apply(CatalogChange(revision=2, added=(new,)))
        assert searcher.search(Query(text="book flight")).hits[0].tool is new
        assert searcher.search(Query(text="send email")).hits[0].tool is TOOLS[0]

    def test_a_changed_tool_is_found_as_it_is_now(self, searcher: Searcher) -> None:
        new = _tool("send_email", "Feed the cat.", "home pets cat")
        searcher.apply(CatalogChange(revision=2, changed=(new,)))
        assert searcher.search(Query(text="send email")).hits[0].tool is new
        at_home = Query(text="send email", servers=frozenset({"home"}))
        assert names(searcher.search(at_home)) == ["send_email"]
        at_the_post = Query(text="send email", servers=frozenset({"post"}), abstain=False)
        assert searcher.search(at_the_post).hits == ()

    def test_a_removed_tool_is_found_no_more(self, searcher: Searcher) -> None:
        searcher.apply(CatalogChange(revision=2, removed=(TOOLS[0],)))
        query = Query(text="send email", limit=10, abstain=False)
        assert "send_email" not in names(searcher.search(query))
        searcher.apply(CatalogChange(revision=3, added=(TOOLS[0],)))
        assert names(searcher.search(query))[0] == "send_email"
        searcher.apply(CatalogChange(revision=4, removed=TOOLS))
        assert searcher.search(query).hits == ()

    def test_tools_fed_one_by_one_rank_as_all_at_once(self) -> None:
        slowly = self.open()
        others = [_numbered(number) for number in range(40)]
        revision = 0
        for tool in (*others, *TOOLS):
            revision += 1
            slowly.apply(CatalogChange(revision=revision, added=(tool,)))
        slowly.apply(CatalogChange(revision=revision + 1, removed=tuple(others[:20])))
        at_once = self.fed((*reversed(TOOLS), *others[20:]))
        for text in ("send email", "report", "weather in a city", "customer"):
            query = Query(text=text, limit=8, abstain=False)
            assert names(slowly.search(query)) == names(at_once.search(query)), text

    @pytest.mark.parametrize(
        ("wanted", "tool"),
        [
            (Query(text="report", servers=frozenset({"post", "nowhere"}), abstain=False), 0),
            (Query(text="report", categories=frozenset({"money"}), abstain=False), 2),
            (Query(text="report", tags=frozenset({"photo"}), abstain=False), 4),
        ],
        ids=["servers", "categories", "tags"],
    )
    def test_filters_narrow_the_search_itself(self, wanted: Query, tool: int) -> None:
        other = TOOLS[tool]
        special = Tool(
            name="report_special",
            description="Make a report.",
            server=other.server,
            category=other.category,
            tags=other.tags,
        )
        searcher = self.fed((*map(_numbered, range(600)), special))
        assert names(searcher.search(wanted)) == ["report_special"]

    def test_hidden_tools_do_not_count_toward_the_limit(self) -> None:
        searcher = self.fed(map(_numbered, range(600)))
        seen = {f"report_{number}" for number in (3, 599)}
        query = Query(text="report", visible=lambda tool: tool.name in seen, abstain=False)
        assert set(names(searcher.search(query))) == seen

    def test_a_filter_that_fits_nothing_finds_nothing(self, searcher: Searcher) -> None:
        query = Query(text="send email", servers=frozenset({"nowhere"}), abstain=False)
        assert searcher.search(query).hits == ()

    @pytest.mark.parametrize("favourite", ["report_qzx", "report_zqx"])
    def test_use_decides_between_tools_that_fit_alike(self, favourite: str) -> None:
        twins = [Tool(name=name, description="Make it.") for name in ("report_qzx", "report_zqx")]
        searcher = self.fed((*TOOLS, *twins))
        boost = {favourite: 1.0}
        query = Query(text="report", boost=lambda name: boost.get(name, 0.0), abstain=False)
        assert names(searcher.search(query))[0] == favourite

    def test_use_does_not_outweigh_what_fits(self, searcher: Searcher) -> None:
        query = Query(text="send email", boost=lambda name: float(name == "resize_image"))
        assert names(searcher.search(query))[0] == "send_email"

    @pytest.mark.parametrize("text", STRANGE, ids=lambda text: ascii(text[:12]))
    def test_strange_texts_are_answered_or_refused(self, searcher: Searcher, text: str) -> None:
        try:
            answer = searcher.search(Query(text=text))
        except InvalidQueryError:
            return
        assert isinstance(answer, SearchResponse)
        assert len(answer.hits) <= 5

    def test_it_answers_while_it_is_told_of_changes(self, searcher: Searcher) -> None:
        failures: list[BaseException] = []
        done = threading.Event()

        def ask() -> None:
            try:
                while not done.is_set():
                    assert "send_email" in names(searcher.search(Query(text="send email")))
            except BaseException as error:  # noqa: BLE001 - reported to the main thread
                failures.append(error)

        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        for number in range(50):
            tool = _numbered(number)
            searcher.apply(CatalogChange(revision=2 * number + 2, added=(tool,)))
            searcher.apply(CatalogChange(revision=2 * number + 3, removed=(tool,)))
        done.set()
        for thread in threads:
            thread.join()
        assert failures == []


def names(answer: SearchResponse) -> list[str]:
    """Return the names of the tools that were found, in their order."""
    return [hit.tool.name for hit in answer.hits]


def _numbered(number: int) -> Tool:
    return Tool(
        name=f"report_{number}",
        description="Make a report.",
        server="press",
        category="papers",
        tags=("paper",),
    )
