from typing import Any

import pytest

from pegboard.errors import InvalidPatternError, InvalidQueryError
from pegboard.model import CatalogChange, Tool
from pegboard.search import Match, Query
from pegboard.search.methods import regex, regex_patterns
from pegboard.search.methods.regex import Regex
from pegboard.search.methods.regex_patterns import compile_pattern

TOOLS = (
    Tool(name="github.create_issue", description="Open an issue.\nIn a repository.", tags=("git",)),
    Tool(name="create_pull_request", description="Ask for a merge.", tags=("git", "aws-cost")),
    Tool(name="aws_cost_explorer", description="Show what C++ builds cost, in files.txt."),
    Tool(name="天气", description="查询指定城市的天气预报", tags=("气象",)),
    Tool(name="a" * 500, description="aaaa " * 800 + "?"),
)


def searcher_of(*tools: Tool) -> Regex:
    searcher = Regex()
    searcher.apply(CatalogChange(revision=1, added=tools))
    return searcher


def names(text: str, *, limit: int = 10) -> list[str]:
    answer = searcher_of(*TOOLS).search(Query(text=text, limit=limit))
    return [hit.tool.name[:20] for hit in answer.hits]


@pytest.mark.covers("R-REG-12")
@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("create", ["create_pull_request", "github.create_issue"]),
        ("^CREATE_", ["create_pull_request"]),
        (r"\Acreate.*request\Z", ["create_pull_request"]),
        ("issue$", ["github.create_issue"]),
        ("an issue.*repository", ["github.create_issue"]),
        ("^git$", ["create_pull_request", "github.create_issue"]),
        ("aws|merge", ["aws_cost_explorer", "create_pull_request"]),
        ("^天.$", ["天气"]),
        (r"\d", []),
        ("nothing.*here", []),
        (r"^\S+ \S+ issue\.$", []),
        (r"issue \w+\d", []),
        (r"merge$", []),
    ],
)
def test_a_pattern_is_looked_for_in_names_then_tags_then_descriptions(
    pattern: str, found: list[str]
) -> None:
    assert names(pattern) == found


def test_a_pattern_never_reaches_from_one_tool_to_the_next() -> None:
    assert names(r"issue[^z]*create") == []
    assert names(r"issue\s*create_pull") == []
    assert names(r"(?s)issue.*pull") == []


def test_a_hit_says_where_and_what() -> None:
    [hit, *_] = searcher_of(*TOOLS).search(Query(text="a?n issue|git", explain=True)).hits
    assert hit.tool.name == "github.create_issue"
    assert hit.matches == (
        Match(field="name", words=("git",)),
        Match(field="tags", words=("git",)),
        Match(field="description", words=("an issue",)),
    )
    assert hit.parts == {"regex": hit.score}


def test_a_whole_name_comes_before_part_of_one() -> None:
    tools = (Tool(name="pull_all"), Tool(name="zpull"), Tool(name="pull", description="zz"))
    hits = searcher_of(*tools).search(Query(text="pull")).hits
    assert [hit.tool.name for hit in hits] == ["pull", "zpull", "pull_all"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("c++", ["aws_cost_explorer"]),
        ("what is a merge (", ["create_pull_request"]),
        ("files.txt?", ["aws_cost_explorer"]),
        ("*issue", ["github.create_issue"]),
        ("create an issue", ["github.create_issue"]),
        ("Please create a pull request!", ["create_pull_request"]),
        ("天气预报 查询", ["天气"]),
        ("\ud800 issue", ["github.create_issue"]),
        ("Can I open an issue (with a title)?", ["github.create_issue"]),
        ("explore cost in US$", ["aws_cost_explorer"]),
        ("files in C:\\Users", ["aws_cost_explorer"]),
        (r"files in C:\data", ["aws_cost_explorer"]),
        ("\N{PUSHPIN}", []),
        ("\0", []),
    ],
    ids=lambda value: ascii(value)[:20],
)
def test_a_text_that_is_no_pattern_works(text: str, found: list[str]) -> None:
    assert names(text)[:1] == found


@pytest.mark.parametrize(
    ("pattern", "position", "words"),
    [
        ("(a|b", 0, "missing )"),
        ("x(a|b))", 6, "unexpected )"),
        (r"\((a|b", 2, "missing )"),
        ("[(]*(a|b", 4, "missing )"),
        ("x[a-", 1, "missing ]"),
        ("ab[z-a]+", 3, "range"),
        ("(?<=a)b", 0, "look-around"),
        ("b(?!a)", 1, "look-around"),
        (r"(a)\1", 3, "back-reference"),
        ("a{2,1}", 1, "repetition"),
        (".**", 1, "repetition"),
        ("a{1001}", 1, "repetition"),
        (r"ab\q", 2, "escape"),
        (r"\*a|*b.*", 4, "repetition"),
        (r"\(?=.*(?=x)", 6, "look-around"),
        (r"\\1 .*\1", 6, "back-reference"),
        (r"[*]*|*", 5, "repetition"),
        (".{1,30}" * 100, None, "repeats too much"),
        ("a.*\\", 3, "trailing"),
        ("((((a{100}){100}){100}){100})", None, ""),
        (r"(\pL|\pN|\pP){30}(\pL|\pN){30}", None, "repeats too much"),
        (r"\pL" * 21, None, "more than 20 classes"),
    ],
)
def test_a_broken_pattern_is_refused_with_its_place(
    pattern: str, position: int | None, words: str
) -> None:
    with pytest.raises(InvalidPatternError) as caught:
        names(pattern)
    assert words in caught.value.problem
    assert caught.value.pattern == pattern
    if position is not None:
        assert caught.value.position == position
    assert isinstance(caught.value, InvalidQueryError)


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", r"^(\w+\s?)*!$", "(a|aa)+b", "(a*)*b", "(.*)(.*)(.*)(.*)(.*)[xyz]$"]
)
def test_no_pattern_explodes(pattern: str) -> None:
    hostile = [Tool(name=f"t{it}", description="aaaa " * 600 + "a" * 1000) for it in range(50)]
    searcher_of(*hostile).search(Query(text=pattern))


def test_a_pattern_that_fits_everything_gives_as_many_as_are_asked_for() -> None:
    searcher = searcher_of(*(Tool(name=f"t{it}") for it in range(3000)))
    for pattern in (".", "x*", "^", "$"):
        assert len(searcher.search(Query(text=pattern, limit=7)).hits) == 7
    assert len(searcher.search(Query(text=".", limit=2500)).hits) == 2500


def test_a_very_long_text_is_no_pattern() -> None:
    assert names("x" * 1_000_000) == []
    assert names("(create|" * 200_000) == ["create_pull_request", "github.create_issue"]


def test_many_changes_leave_exactly_what_is_there() -> None:
    searcher = Regex()
    tools = [Tool(name=f"tool_{it}", description=f"Number {it}.") for it in range(1000)]
    for revision, tool in enumerate(tools):
        searcher.apply(CatalogChange(revision=revision, added=(tool,)))
    searcher.apply(CatalogChange(revision=2000, removed=tuple(tools[1:])))
    searcher.apply(CatalogChange(revision=2001, added=tuple(tools[500:]), removed=(tools[5],)))
    again = Tool(name="tool_700", description="Something else.")
    searcher.apply(CatalogChange(revision=2002, changed=(again,)))
    found = {hit.tool.name for hit in searcher.search(Query(text="tool_", limit=5000)).hits}
    assert found == {"tool_0", *(f"tool_{it}" for it in range(500, 1000))}
    assert searcher.search(Query(text="Number.*700")).hits == ()
    assert searcher.search(Query(text="something else")).hits[0].tool is again


def test_letters_of_every_script_are_found_without_regard_to_case() -> None:
    searcher = searcher_of(Tool(name="ÜBERSETZEN"), Tool(name="перевод", description="ПЕРЕВЕСТИ"))
    assert searcher.search(Query(text="übersetz")).hits
    assert searcher.search(Query(text="перевести$")).hits


def test_a_pattern_that_takes_too_long_is_given_up_in_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(regex, "_SECONDS", 0.0)
    with pytest.raises(InvalidPatternError, match="searching for it takes more than 0 s") as caught:
        names("z.*q")
    assert caught.value.pattern == "z.*q"


def test_a_pattern_without_a_limit_is_looked_for_however_long_it_takes() -> None:
    pattern = compile_pattern("a+b")
    assert [pattern.first(text) for text in ("aab", "b", "ab")] == ["aab", None, "ab"]


def test_long_texts_are_searched_in_pieces_and_none_is_missed() -> None:
    tools = [Tool(name=f"t{it}", description="x" * 4000 + f" needle{it}z") for it in range(40)]
    searcher = searcher_of(*tools)
    for it in range(40):
        assert [hit.tool for hit in searcher.search(Query(text=f"needle{it}z$")).hits] == [
            tools[it]
        ]


def test_groups_and_names_of_groups_do_no_harm() -> None:
    assert names(r"(?P<verb>create)_(pull|push)_.*") == ["create_pull_request"]


def test_a_pattern_that_is_too_large_is_refused_before_its_whole_program_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiler = vars(regex_patterns)["_compiler"]
    memories: list[int] = []

    def compiled(source: bytes, options: Any) -> Any:
        memories.append(options.max_mem)
        return compiler(source, options)

    monkeypatch.setattr(regex_patterns, "_compiler", compiled)
    with pytest.raises(InvalidPatternError, match="repeats too much"):
        compile_pattern(r"(\pL?){200}")
    assert max(memories) <= 1 << 18
