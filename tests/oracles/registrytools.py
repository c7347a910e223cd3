"""What a user of RegistryTools does, run with `registry-tools` and with ours."""

import copy
import importlib
import json
import os
import pickle
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.oracles import registrytools_storage
from tests.oracles.outcomes import caught, logged
from tests.oracles.surface import public
from tests.oracles.table import Table

TABLE = Table()
TABLE.scenarios.update(registrytools_storage.TABLE.scenarios)
# First cell of a row of the guide → scenarios, or places of the surface (dotted).
DIFFERENCES: dict[str, list[str]] = {
    "Look-around and back-references in a regular expression": [
        "a_regex_with_a_look_ahead",
        "a_regex_with_a_back_reference",
    ],
    "`\\b` beside letters that are not ASCII, and `.` at the end of a line": [
        "a_regex_with_a_boundary_before_chinese",
        "a_regex_across_two_lines",
    ],
    "A regular expression of more than 1,000 characters": ["a_regex_of_two_thousand_characters"],
}
_CONSTANTS = (
    *("DEFAULT_SEARCH_METHOD", "ENABLE_DOWNGRADE", "MAX_HOT_TOOLS_PRELOAD"),
    *("HOT_TOOL_INACTIVE_DAYS", "HOT_TOOL_THRESHOLD"),
    *("WARM_TOOL_INACTIVE_DAYS", "WARM_TOOL_THRESHOLD"),
)


def names(side: str) -> Any:
    """Return the public names of a side."""
    if side == "ours":
        return public("pegboard.compat.registrytools")
    packages = ("registry.models", "registry", "search", "storage")
    found = public(*(f"registrytools.{it}" for it in packages))
    defaults = importlib.import_module("registrytools.defaults")
    for name in _CONSTANTS:
        setattr(found, name, getattr(defaults, name))
    loader = importlib.import_module("registrytools.search.embedding_search")
    found.EmbeddingSearchLazyLoader = loader.EmbeddingSearchLazyLoader
    return found


_TOOLS = (
    ("github.create_pr", "Create a pull request in a GitHub repository", "git", "code"),
    ("slack.send_message", "Send message to Slack channel", "chat", "talk"),
    ("gitlab.merge_request", "Create merge request in GitLab", "mr", "code"),
    ("aws.s3.upload", "Upload file to AWS S3 bucket", "storage", "cloud"),
    ("aws_cost_explorer", "Show the billing and the cost of AWS", "billing", "cloud"),
    ("weather.query", "查询天气信息", "天气", None),
    ("database.query", "Execute SQL query on a database", "sql", "data"),
)


def tools_of(its: Any, uses: Any = ()) -> list[Any]:
    frequencies = [*uses, *[0] * len(_TOOLS)]
    return [
        its.ToolMetadata(
            name=name, description=words, tags={tag}, category=category, use_frequency=times
        )
        for (name, words, tag, category), times in zip(_TOOLS, frequencies, strict=False)
    ]


def registry_of(its: Any, uses: Any = ()) -> Any:
    registry = its.ToolRegistry()
    registry.register_searcher(its.SearchMethod.REGEX, its.RegexSearch())
    registry.register_searcher(its.SearchMethod.BM25, its.BM25Search())
    registry.register_many(tools_of(its, uses))
    return registry


def found(results: Any) -> list[str]:
    return [it.tool_name for it in results]


def scored(results: Any) -> list[Any]:
    return [(it.tool_name, round(it.score, 6)) for it in results]


def temperatures(registry: Any) -> dict[str, Any]:
    return {it.name: it.temperature for it in registry.list_tools()}


def seconds_since(moment: datetime) -> float:
    return abs((datetime.now() - moment).total_seconds())  # noqa: DTZ005 - local time is the point


def days_ago(days: int) -> datetime:
    return datetime.now() - timedelta(days=days)  # noqa: DTZ005 - local time is the point


# The models


@TABLE.scenario
def a_tool_with_two_fields(its: Any) -> Any:
    return its.ToolMetadata(name="a", description="b")


@TABLE.scenario
def a_tool_with_every_field(its: Any) -> Any:
    return its.ToolMetadata(
        name="a",
        description="b",
        mcp_server="s",
        defer_loading=False,
        tags=["t", "t"],
        category="c",
        use_frequency=5,
        last_used=datetime(2026, 1, 4, 12),  # noqa: DTZ001 - as users of it write it
        temperature=its.ToolTemperature.WARM,
        input_schema={"type": "object"},
        output_schema={},
    )


@TABLE.scenario
def the_representation_of_a_tool(its: Any) -> Any:
    tool = its.ToolMetadata(name="a", description="b", tags={"t"}, temperature="hot")
    return repr(tool), str(tool), repr(tool.temperature)


@TABLE.scenario
def a_tool_as_json(its: Any) -> Any:
    moment = datetime(2026, 1, 4, 12, 0, 0, 5)  # noqa: DTZ001 - as users of it write it
    tool = its.ToolMetadata(name="a", description="b", tags={"t"}, last_used=moment)
    return tool.model_dump_json(), json.dumps(tool.model_dump(mode="json"))


@TABLE.scenario
def a_tool_with_a_time_zone_as_json(its: Any) -> Any:
    moment = datetime(2026, 1, 4, 12, tzinfo=UTC)
    tool = its.ToolMetadata(name="a", description="b", last_used=moment)
    return tool.last_used, tool.model_dump(mode="json")["last_used"]


@TABLE.scenario
def the_fields_of_a_tool_in_their_order(its: Any) -> Any:
    return list(its.ToolMetadata.model_fields), list(its.ToolSearchResult.model_fields)


@TABLE.scenario
def the_schema_of_a_tool(its: Any) -> Any:
    schema = its.ToolMetadata.model_json_schema()
    return (
        schema["required"],
        list(schema["properties"]),
        schema["$defs"]["ToolTemperature"]["enum"],
    )


@TABLE.scenario
def a_tool_from_its_own_json(its: Any) -> Any:
    tool = tools_of(its)[0]
    return its.ToolMetadata.model_validate_json(tool.model_dump_json()) == tool


@TABLE.scenario
def a_tool_from_json_of_an_older_version(its: Any) -> Any:
    given = {"name": "a", "description": "b", "tags": ["t"], "last_used": "2026-01-04T12:00:00"}
    return its.ToolMetadata.model_validate(given)


@TABLE.scenario
def a_tool_with_unknown_fields(its: Any) -> Any:
    return its.ToolMetadata(name="a", description="b", version="1")


@TABLE.scenario
def a_tool_without_a_description(its: Any) -> Any:
    return its.ToolMetadata(name="a")


@TABLE.scenario
def tools_with_odd_values(its: Any) -> Any:
    odd: list[dict[str, Any]] = [
        {"name": ""},
        {"name": "a\nb"},
        {"name": 1},
        {"description": ""},
        {"tags": None},
        {"tags": "abc"},
        {"tags": ()},
        {"tags": {"a": 1}},
        {"use_frequency": -1},
        {"use_frequency": 2**70},
        {"use_frequency": "3"},
        {"use_frequency": 1.5},
        {"last_used": "soon"},
        {"last_used": 0},
        {"temperature": "lukewarm"},
        {"temperature": "warm"},
        {"temperature": None},
        {"input_schema": {"type": "no such type"}},
        {"input_schema": []},
        {"defer_loading": "yes"},
        {"category": ""},
    ]
    return [caught(its.ToolMetadata, **{"name": "a", "description": "b", **it}) for it in odd]


@TABLE.scenario
def a_field_is_set_without_a_check(its: Any) -> Any:
    tool = its.ToolMetadata(name="a", description="b")
    tool.use_frequency = -5
    tool.tags = ["x"]
    tool.last_used = datetime(2026, 1, 4)  # noqa: DTZ001 - as users of it write it
    tool.temperature = its.ToolTemperature.HOT
    return tool.use_frequency, tool.tags, tool.last_used, tool.temperature


@TABLE.scenario
def two_tools_share_no_tags(its: Any) -> Any:
    one, other = (its.ToolMetadata(name="a", description="b") for _ in range(2))
    one.tags.add("mine")
    return other.tags, one == other


@TABLE.scenario
def a_tool_equals_a_copy_of_it(its: Any) -> Any:
    tool = tools_of(its)[0]
    changed = tool.model_copy(update={"description": "x"})
    return tool == tool.model_copy(), tool == copy.deepcopy(tool), tool == changed


@TABLE.scenario
def a_tool_is_not_hashable(its: Any) -> Any:
    return {its.ToolMetadata(name="a", description="b")}


@TABLE.scenario
def a_tool_survives_pickle(its: Any) -> Any:
    tool = tools_of(its)[0]
    return pickle.loads(pickle.dumps(tool)) == tool


@TABLE.scenario
def the_moment_of_a_tool_compares_with_now(its: Any) -> Any:
    tool = its.ToolMetadata(name="a", description="b", last_used=days_ago(1))
    return tool.last_used < datetime.now(), tool.last_used.tzinfo  # noqa: DTZ005 - as above


@TABLE.scenario
def the_search_methods(its: Any) -> Any:
    methods = list(its.SearchMethod)
    return methods, [str(it) for it in methods], [f"{it}" for it in methods], len(methods)


@TABLE.scenario
def a_search_method_from_its_value(its: Any) -> Any:
    return its.SearchMethod("bm25"), its.SearchMethod["REGEX"], its.SearchMethod.BM25 == "bm25"


@TABLE.scenario
def a_search_method_that_does_not_exist(its: Any) -> Any:
    return its.SearchMethod("hybrid")


@TABLE.scenario
def the_temperatures(its: Any) -> Any:
    members = list(its.ToolTemperature)
    return members, [str(it) for it in members], json.dumps(members), members[0] == "hot"


@TABLE.scenario
def the_storage_backends(its: Any) -> Any:
    return list(its.StorageBackend), str(its.StorageBackend.JSON)


@TABLE.scenario
def the_defaults(its: Any) -> Any:
    return {name: getattr(its, name) for name in _CONSTANTS}


@TABLE.scenario
def a_search_result(its: Any) -> Any:
    result = its.ToolSearchResult(tool_name="a", description="b", score=0.5, match_reason="c")
    return result, repr(result), result.model_dump_json()


@TABLE.scenario
def scores_outside_of_their_bounds(its: Any) -> Any:
    def result(score: Any) -> Any:
        return its.ToolSearchResult(tool_name="a", description="b", score=score, match_reason="")

    return [caught(result, it) for it in (0, 1, 1.01, -0.01, "0.5", float("nan"), None)]


# The algorithms


@TABLE.scenario
def the_algorithms_as_they_are_made(its: Any) -> Any:
    regex, bm25, embedding = its.RegexSearch(), its.BM25Search(), its.EmbeddingSearch()
    return {
        "methods": [regex.method, bm25.method, embedding.method],
        "indexed": [regex.is_indexed(), bm25.is_indexed(), embedding.is_indexed()],
        "sizes": [bm25.get_index_size(), embedding.get_index_size()],
        "regex": regex.case_sensitive,
        "bm25": [bm25.k1, bm25.b, bm25.epsilon],
        "embedding": [embedding.model_name, embedding.get_embedding_dimension()],
    }


@TABLE.scenario
def the_algorithms_with_options(its: Any) -> Any:
    bm25, by_name = its.BM25Search(2.0, 0.5, 0.1), its.BM25Search(k1=1.2, b=0, epsilon=0)
    return {
        "regex": [its.RegexSearch(True).case_sensitive],
        "bm25": [bm25.k1, bm25.b, bm25.epsilon, by_name.k1, by_name.b, by_name.epsilon],
        "embedding": [
            its.EmbeddingSearch("all-MiniLM-L6-v2").model_name,
            its.EmbeddingSearch(model_name="").model_name,
            its.EmbeddingSearch(_validated_device="cpu").model_name,
        ],
    }


@TABLE.scenario
def the_methods_of_the_classes(its: Any) -> Any:
    classes = its.RegexSearch, its.BM25Search, its.EmbeddingSearch, its.EmbeddingSearchLazyLoader
    return [it.method for it in classes], its.EmbeddingSearch.DEFAULT_MODEL


@TABLE.scenario
def the_abstract_algorithm(its: Any) -> Any:
    missing = sorted(its.SearchAlgorithm.__abstractmethods__)
    return missing, caught(its.SearchAlgorithm)


@TABLE.scenario
def indexing_nothing(its: Any) -> Any:
    outcomes: list[Any] = []
    for kind in (its.RegexSearch, its.BM25Search, its.EmbeddingSearch):
        algorithm = kind()
        algorithm.index([])
        outcomes.append([algorithm.is_indexed(), algorithm.search("anything", [], 5)])
    return outcomes


@TABLE.scenario
def searching_nothing_without_an_index(its: Any) -> Any:
    algorithm = its.BM25Search()
    return algorithm.search("anything", [], 5), algorithm.is_indexed(), algorithm.get_index_size()


@TABLE.scenario
def unloading_what_was_never_loaded(its: Any) -> Any:
    one, other = its.EmbeddingSearch(), its.EmbeddingSearchLazyLoader()
    return one.unload_model(), other.unload_model(), other.is_indexed()


@TABLE.scenario
def an_unknown_device_is_a_warning(its: Any) -> Any:
    before = os.environ.get("REGISTRYTOOLS_DEVICE")
    os.environ["REGISTRYTOOLS_DEVICE"] = "toaster"
    try:
        with logged() as levels:
            model = its.EmbeddingSearch().model_name
    finally:
        os.environ.pop("REGISTRYTOOLS_DEVICE")
        if before is not None:
            os.environ["REGISTRYTOOLS_DEVICE"] = before
    return levels, model


@TABLE.scenario
def known_devices_are_no_warning(its: Any) -> Any:
    with logged() as levels:
        for device in ("cpu", "CPU", "gpu:0", "cuda:1", "auto", ""):
            os.environ["REGISTRYTOOLS_DEVICE"] = device
            its.EmbeddingSearch()
        os.environ.pop("REGISTRYTOOLS_DEVICE")
    return levels


@TABLE.scenario
def the_size_of_an_index(its: Any) -> Any:
    algorithm = its.BM25Search()
    algorithm.index(tools_of(its))
    sizes = [algorithm.get_index_size()]
    algorithm.search("anything", tools_of(its)[:2], 5)
    sizes.append(algorithm.get_index_size())
    algorithm.index([])
    return [*sizes, algorithm.get_index_size(), algorithm.is_indexed()]


@TABLE.scenario
def indexing_by_layers(its: Any) -> Any:
    tools = tools_of(its)
    one, other = its.BM25Search(), its.BM25Search()
    one.index_layered(tools[:2], tools[2:4])
    other.index_layered(hot_tools=tools[:2], warm_tools=[], cold_tools=tools[4:])
    regex = its.RegexSearch()
    regex.index_layered(tools[:1], [], None)
    return one.get_index_size(), other.get_index_size(), regex.is_indexed()


@TABLE.scenario
def a_layered_index_is_searched_in_its_order(its: Any) -> Any:
    tools = tools_of(its)
    algorithm = its.RegexSearch()
    algorithm.index_layered(tools[4:], tools[:4])
    return found(algorithm.search("query|create", tools, 5))


# Searching by regular expressions


def by_regex(its: Any, query: str, limit: int = 5, **options: Any) -> Any:
    return scored(its.RegexSearch(**options).search(query, tools_of(its), limit))


@TABLE.scenario
def a_regex_that_is_a_name(its: Any) -> Any:
    return by_regex(its, "github.create_pr")


@TABLE.scenario
def a_regex_in_names_descriptions_and_tags(its: Any) -> Any:
    return [by_regex(its, it) for it in ("aws", "billing", "git", "chat", "cloud", "天气", "query")]


@TABLE.scenario
def a_regex_that_is_a_whole_description(its: Any) -> Any:
    return by_regex(its, "Send message to Slack channel"), by_regex(its, "Create .*")


@TABLE.scenario
def a_regex_with_an_alternative(its: Any) -> Any:
    return by_regex(its, "slack|gitlab|s3"), by_regex(its, "aws.s3.upload|query")


@TABLE.scenario
def a_regex_with_anchors(its: Any) -> Any:
    patterns = ("^aws", "request$", r"\Aaws", r"pr\Z", "^aws_.*_explorer$", r"\bpull\b", "^query$")
    return [by_regex(its, it) for it in patterns]


@TABLE.scenario
def a_regex_with_classes(its: Any) -> Any:
    patterns = (r"s\d", r"\w+_\w+", "[a-c]ws", r"[^\w.]", r"\s[A-Z]{3}\b", r"[\u4e00-\u9fff]+")
    return [by_regex(its, it) for it in patterns]


@TABLE.scenario
def a_regex_for_chinese_letters(its: Any) -> Any:
    return by_regex(its, r"查询\w+信息"), by_regex(its, r"^\w+$"), by_regex(its, "[一-龥]{2}信息")


@TABLE.scenario
def a_regex_with_groups(its: Any) -> Any:
    patterns = ("(aws|github)[._]", "(?:s3|cost)", "(?P<kind>merge|pull) request", "(?i)SLACK")
    return [by_regex(its, it) for it in patterns]


@TABLE.scenario
def a_regex_with_repetitions(its: Any) -> Any:
    patterns = ("l{2}", "es?t", "a+?ws", "c++r", "S{1,2}+Q")
    return [by_regex(its, it) for it in patterns]


@TABLE.scenario
def a_regex_is_not_searched_word_by_word(its: Any) -> Any:
    return by_regex(its, "message send"), by_regex(its, "github request")


@TABLE.scenario
def a_regex_and_capital_letters(its: Any) -> Any:
    return [
        by_regex(its, "GITHUB"),
        by_regex(its, "GitHub", case_sensitive=True),
        by_regex(its, "github", case_sensitive=True),
        by_regex(its, "SQL|AWS", case_sensitive=True),
    ]


@TABLE.scenario
def a_regex_that_is_invalid(its: Any) -> Any:
    return [by_regex(its, it) for it in ("[invalid(", "(", "*a", "a)", "(?P<", "\\", "a**")]


@TABLE.scenario
def a_regex_that_matches_everything_or_nothing(its: Any) -> Any:
    return [by_regex(its, it, 10) for it in ("", ".*", ".", "x^", "nothing like this", "$", " ")]


@TABLE.scenario
def limits_of_a_search_by_regex(its: Any) -> Any:
    return [by_regex(its, "e", it) for it in (0, 1, 2, 100, -1, -100)]


@TABLE.scenario
def a_search_by_regex_without_a_limit(its: Any) -> Any:
    return found(its.RegexSearch().search("e", tools_of(its), None))


@TABLE.scenario
def the_reason_of_a_regex(its: Any) -> Any:
    return its.RegexSearch().search("aws_cost_explorer", tools_of(its), 1)


@TABLE.scenario
def a_regex_in_a_description_of_two_lines(its: Any) -> Any:
    tools = [its.ToolMetadata(name="a", description="First line.\nSecond line.")]
    return [found(its.RegexSearch().search(it, tools, 5)) for it in ("Second", "^First", "line.$")]


@TABLE.scenario
def a_regex_across_two_lines(its: Any) -> Any:
    tools = [its.ToolMetadata(name="a", description="First line.\nSecond line.")]
    return found(its.RegexSearch().search("First.*Second", tools, 5))


@TABLE.scenario
def a_regex_with_a_look_ahead(its: Any) -> Any:
    return by_regex(its, "aws(?=_cost)")


@TABLE.scenario
def a_regex_with_a_back_reference(its: Any) -> Any:
    return by_regex(its, r"(s)\1")


@TABLE.scenario
def a_regex_with_a_boundary_before_chinese(its: Any) -> Any:
    return by_regex(its, r"\b查询")


@TABLE.scenario
def a_regex_of_two_thousand_characters(its: Any) -> Any:
    return by_regex(its, "aws|" * 500 + "slack")


# Searching by BM25


def by_bm25(its: Any, query: str, limit: int = 5, **options: Any) -> Any:
    return scored(its.BM25Search(**options).search(query, tools_of(its), limit))


@TABLE.scenario
def keywords_of_one_tool(its: Any) -> Any:
    queries = ("github pull request", "billing cost", "Upload file", "SQL", "channel")
    return [by_bm25(its, it) for it in queries]


@TABLE.scenario
def keywords_of_several_tools(its: Any) -> Any:
    return [by_bm25(its, it, 10) for it in ("Create request", "aws", "query", "code git aws", ".")]


@TABLE.scenario
def keywords_in_the_other_case(its: Any) -> Any:
    return [by_bm25(its, it, 10) for it in ("GITHUB", "upload", "Aws", "create")]


@TABLE.scenario
def keywords_in_chinese(its: Any) -> Any:
    return found(by_chinese(its, "天气")), found(by_chinese(its, "股票")), by_chinese(its, "新闻")


def by_chinese(its: Any, query: str) -> Any:
    tools = [
        its.ToolMetadata(name="weather.query", description="查询天气信息", tags={"天气"}),
        its.ToolMetadata(name="stock.price", description="股票行情", tags={"股票"}),
        its.ToolMetadata(name="news.read", description="阅读新闻", tags={"新闻"}),
        its.ToolMetadata(name="email.send", description="发送邮件 to a person", tags={"邮件"}),
    ]
    return its.BM25Search().search(query, tools, 2)[:1]


@TABLE.scenario
def keywords_that_no_tool_has(its: Any) -> Any:
    return by_bm25(its, "xyzzy"), by_bm25(its, "xyzzy", 10)


@TABLE.scenario
def an_empty_query_by_bm25(its: Any) -> Any:
    return by_bm25(its, ""), by_bm25(its, "", 2), by_bm25(its, "  ", 10), by_bm25(its, "\n")


@TABLE.scenario
def limits_of_a_search_by_bm25(its: Any) -> Any:
    return [by_bm25(its, "aws cost", it) for it in (0, 1, 3, 100, -1, -100)]


@TABLE.scenario
def the_options_of_bm25_change_the_ranking(its: Any) -> Any:
    tools = [
        its.ToolMetadata(name="a", description="report " * 6 + "of many things that are long"),
        its.ToolMetadata(name="b", description="report"),
        its.ToolMetadata(name="c", description="nothing"),
        its.ToolMetadata(name="d", description="else"),
        its.ToolMetadata(name="e", description="here"),
    ]

    def ranked(**options: Any) -> Any:
        return scored(its.BM25Search(**options).search("report", tools, 2))

    return ranked(), ranked(b=0), ranked(k1=10, b=0.1), ranked(b=1.0), ranked(epsilon=1)


@TABLE.scenario
def a_word_that_most_tools_have(its: Any) -> Any:
    tools = [its.ToolMetadata(name=f"t{it}", description=f"tool {it}") for it in range(4)]
    return scored(its.BM25Search().search("tool", tools, 10)), scored(
        its.BM25Search(epsilon=0).search("tool 2", tools, 10)
    )


@TABLE.scenario
def one_tool_alone_by_bm25(its: Any) -> Any:
    tools = tools_of(its)[:1]
    return [scored(its.BM25Search().search(it, tools, 5)) for it in ("github", "nothing", "")]


@TABLE.scenario
def two_tools_by_bm25(its: Any) -> Any:
    tools = tools_of(its)[:2]
    return [scored(its.BM25Search().search(it, tools, 5)) for it in ("slack", "Send a", "pull")]


@TABLE.scenario
def names_numbers_and_signs_by_bm25(its: Any) -> Any:
    words = (
        "v1.2 is 100% new",
        "C# and C++ (both)",
        "a-b_c.d",
        "naïve café",
        "x\r\ny\tz",
        "e.g. 5",
    )
    tools = [its.ToolMetadata(name=f"n{it}", description=word) for it, word in enumerate(words)]
    queries = ("v1.2", "100%", "café", "a-b", "c.d", "5", "(both)", "y\tz", "1.2")
    return [scored(its.BM25Search().search(it, tools, 6)) for it in queries]


@TABLE.scenario
def the_reason_of_bm25(its: Any) -> Any:
    result = its.BM25Search().search("billing", tools_of(its), 1)[0]
    return result.tool_name, result.description, result.match_reason, result.score == 1.0


@TABLE.scenario
def bm25_searches_no_categories_or_servers(its: Any) -> Any:
    tools = [
        its.ToolMetadata(name=name, description="words", category=f"{name}cat", mcp_server="srv")
        for name in "abc"
    ]
    return scored(its.BM25Search().search("ccat", tools, 5)), scored(
        its.BM25Search().search("srv", tools, 5)
    )


@TABLE.scenario
def the_index_follows_the_tools(its: Any) -> Any:
    algorithm, tools = its.BM25Search(), tools_of(its)
    algorithm.index(tools)
    jira = its.ToolMetadata(name="jira.create_issue", description="Create issue in Jira")
    added = found(algorithm.search("jira issue", [*tools, jira], 1))
    changed = [it.model_copy(update={"description": "Feed the cat"}) for it in tools[:1]]
    return added, found(algorithm.search("cat", [*changed, *tools[1:]], 1))


@TABLE.scenario
def the_index_ignores_use_and_order(its: Any) -> Any:
    algorithm, tools = its.RegexSearch(), tools_of(its)
    algorithm.index(tools)
    return found(algorithm.search("query", tools[::-1], 5))


@TABLE.scenario
def odd_tools_by_both(its: Any) -> Any:
    tools = [
        its.ToolMetadata(name="", description=""),
        its.ToolMetadata(name="a\nb", description="two lines"),
        its.ToolMetadata(name="x" * 600, description="long"),
        its.ToolMetadata(name="same", description="one"),
        its.ToolMetadata(name="same", description="other"),
    ]
    return [
        found(kind().search(it, tools, 9))
        for kind in (its.RegexSearch, its.BM25Search)
        for it in ("long", "other", "a", "")
    ]


@TABLE.scenario
def many_threads_search_at_once(its: Any) -> Any:
    algorithm, tools = its.BM25Search(), tools_of(its)
    answers: list[Any] = []
    threads = [
        threading.Thread(target=lambda: answers.append(found(algorithm.search("aws", tools, 2))))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(answers)


# Algorithms of one's own


def by_length(its: Any, method: Any) -> Any:
    class ByLength(its.SearchAlgorithm):
        def index(self, tools: Any) -> None:
            super().index(tools)

        def search(self, query: str, tools: Any, limit: int) -> Any:
            if self._should_rebuild_index(tools):
                self.index(tools)
            return self._filter_by_score([(it, float(len(it.name))) for it in tools], limit)

    ByLength.method = method
    return ByLength()


@TABLE.scenario
def an_algorithm_of_ones_own(its: Any) -> Any:
    algorithm = by_length(its, its.SearchMethod.EMBEDDING)
    before = algorithm.is_indexed()
    results = algorithm.search("anything", tools_of(its), 3)
    return before, algorithm.is_indexed(), results


@TABLE.scenario
def an_algorithm_of_ones_own_in_a_registry(its: Any) -> Any:
    registry = registry_of(its)
    algorithm = by_length(its, its.SearchMethod.EMBEDDING)
    registry.register_searcher(its.SearchMethod.EMBEDDING, algorithm)
    registry.rebuild_indexes()
    answer = scored(registry.search("anything", its.SearchMethod.EMBEDDING, 3))
    return algorithm.is_indexed(), answer


@TABLE.scenario
def an_algorithm_gives_its_results_as_it_likes(its: Any) -> Any:
    class Odd(its.SearchAlgorithm):
        method = its.SearchMethod.BM25

        def index(self, tools: Any) -> None: ...

        def search(self, query: str, tools: Any, limit: int) -> Any:
            return [
                its.ToolSearchResult(tool_name=it, description="", score=score, match_reason="")
                for it, score in (("a", 0.1), ("b", 0.9), ("c", 0.5))
            ]

    registry = registry_of(its)
    registry.register_searcher(its.SearchMethod.BM25, Odd())
    return scored(registry.search("anything", limit=2))


@TABLE.scenario
def an_algorithm_that_is_no_subclass(its: Any) -> Any:
    class Duck:
        method = its.SearchMethod.EMBEDDING

        def search(self, query: str, tools: Any, limit: int) -> Any:
            return [query, len(tools), limit]

    registry = registry_of(its)
    registry.register_searcher(its.SearchMethod.EMBEDDING, Duck())
    return registry.search("quack", its.SearchMethod.EMBEDDING, limit=3)


@TABLE.scenario
def an_algorithm_without_a_search(its: Any) -> Any:
    class Half(its.SearchAlgorithm):
        def index(self, tools: Any) -> None: ...

    return Half()


@TABLE.scenario
def an_algorithm_that_fails(its: Any) -> Any:
    class Failing(its.BM25Search):
        def search(self, query: str, tools: Any, limit: int) -> Any:
            raise LookupError(query)

    registry = registry_of(its)
    registry.register_searcher(its.SearchMethod.BM25, Failing())
    return registry.search("anything")


# The registry


@TABLE.scenario
def an_empty_registry(its: Any) -> Any:
    registry = its.ToolRegistry()
    return {
        "counts": [registry.tool_count, registry.category_count, registry.is_empty()],
        "lists": [registry.list_tools(), registry.list_categories(), registry.get_most_used()],
        "stats": registry.get_usage_stats(),
        "search": [registry.search("x"), registry.search("", its.SearchMethod.REGEX)],
        "missing": [registry.get_tool("x"), registry.unregister("x"), registry.update_usage("x")],
        "searcher": registry.get_searcher(its.SearchMethod.BM25),
        "nothing": [registry.register_many([]), registry.rebuild_indexes(), registry.clear()],
    }


@TABLE.scenario
def registering_tools(its: Any) -> Any:
    registry = registry_of(its)
    return {
        "answers": [registry.register(tools_of(its)[0]), registry.register_many(tools_of(its)[:2])],
        "names": [it.name for it in registry.list_tools()],
        "counts": [registry.tool_count, registry.category_count, registry.is_empty()],
        "categories": registry.list_categories(),
        "cloud": sorted(it.name for it in registry.list_tools("cloud")),
        "nothing": registry.list_tools(category="no such"),
        "all": len(registry.list_tools(category="")),
    }


@TABLE.scenario
def a_registered_tool_is_the_given_object(its: Any) -> Any:
    registry, tool = its.ToolRegistry(), tools_of(its)[0]
    registry.register(tool)
    tool.description = "changed"
    return registry.get_tool(tool.name) is tool, registry.list_tools()[0].description


@TABLE.scenario
def registering_a_name_again(its: Any) -> Any:
    registry = registry_of(its)
    registry.register(its.ToolMetadata(name="weather.query", description="x", category="new"))
    registry.register(its.ToolMetadata(name="aws.s3.upload", description="x", category="files"))
    return {
        "tool": registry.get_tool("weather.query"),
        "names": [it.name for it in registry.list_tools()],
        "categories": registry.list_categories(),
        "cloud": [it.name for it in registry.list_tools("cloud")],
        "found": found(registry.search("AWS S3 bucket", limit=1)),
    }


@TABLE.scenario
def registering_odd_tools(its: Any) -> Any:
    registry = registry_of(its)
    odd: list[dict[str, Any]] = [
        {"name": ""},
        {"name": "a\nb"},
        {"name": "x" * 600},
        {"input_schema": {"type": "no such type"}},
        {"category": ""},
        {"use_frequency": -1},
    ]
    for number, it in enumerate(odd):
        tool = its.ToolMetadata(**{"name": f"t{number}", "description": "", **it})
        registry.register(tool)
    return registry.tool_count, registry.list_categories(), registry.get_tool("").name


@TABLE.scenario
def registering_what_is_no_tool(its: Any) -> Any:
    registry = its.ToolRegistry()
    failed = caught(registry.register_many, [*tools_of(its)[:2], {"name": "x"}])
    return failed, registry.tool_count


@TABLE.scenario
def unregistering(its: Any) -> Any:
    registry = registry_of(its, [20])
    answers = [registry.unregister("github.create_pr"), registry.unregister("github.create_pr")]
    return {
        "answers": [*answers, registry.unregister("weather.query")],
        "tool": registry.get_tool("github.create_pr"),
        "names": [it.name for it in registry.list_tools()],
        "found": found(registry.search("github", its.SearchMethod.REGEX)),
        "hot": registry.search_hot_warm("github"),
    }


@TABLE.scenario
def a_category_stays_when_its_last_tool_leaves(its: Any) -> Any:
    registry = registry_of(its)
    registry.unregister("slack.send_message")
    return registry.list_categories(), registry.category_count, registry.list_tools("talk")


@TABLE.scenario
def clearing(its: Any) -> Any:
    registry = registry_of(its, [20])
    registry.clear()
    return {
        "counts": [registry.tool_count, registry.category_count, registry.is_empty()],
        "lists": [registry.list_tools(), registry.list_categories()],
        "search": [registry.search("aws"), registry.search_hot_warm("aws")],
        "searcher": type(registry.get_searcher(its.SearchMethod.BM25)),
    }


@TABLE.scenario
def searching_a_registry(its: Any) -> Any:
    registry = registry_of(its)
    return {
        "default": scored(registry.search("github pull request")),
        "by position": scored(registry.search("aws", its.SearchMethod.REGEX, 1)),
        "by keyword": scored(registry.search(query="aws", method=its.SearchMethod.BM25, limit=2)),
        "nothing": registry.search("no such tool", its.SearchMethod.REGEX),
    }


@TABLE.scenario
def odd_queries_to_a_registry(its: Any) -> Any:
    registry = registry_of(its)
    return [
        found(registry.search(query, method, limit))
        for query in ("", " ", "\n", "a" * 900)
        for method in (its.SearchMethod.BM25, its.SearchMethod.REGEX)
        for limit in (3, 0, -5)
    ]


@TABLE.scenario
def a_method_that_is_not_registered(its: Any) -> Any:
    registry = registry_of(its)
    return [
        caught(registry.search, "aws", its.SearchMethod.EMBEDDING),
        caught(registry.search_hot_warm, "aws", its.SearchMethod.EMBEDDING),
    ]


@TABLE.scenario
def a_searcher_for_another_method(its: Any) -> Any:
    return its.ToolRegistry().register_searcher(its.SearchMethod.BM25, its.RegexSearch())


@TABLE.scenario
def a_searcher_that_is_none(its: Any) -> Any:
    registry = its.ToolRegistry()
    return caught(registry.register_searcher, its.SearchMethod.BM25, object()), caught(
        registry.register_searcher, its.SearchMethod.BM25, None
    )


@TABLE.scenario
def registering_searchers(its: Any) -> Any:
    registry, one, other = its.ToolRegistry(), its.RegexSearch(), its.RegexSearch()
    answer = registry.register_searcher(its.SearchMethod.REGEX, one)
    first = registry.get_searcher(its.SearchMethod.REGEX) is one
    registry.register_searcher(method=its.SearchMethod.REGEX, searcher=other)
    second = registry.get_searcher(method=its.SearchMethod.REGEX) is other
    return answer, first, second, registry.get_searcher(its.SearchMethod.BM25)


@TABLE.scenario
def rebuilding_indexes(its: Any) -> Any:
    registry = registry_of(its)
    searcher = registry.get_searcher(its.SearchMethod.BM25)
    before = searcher.is_indexed()
    registry.rebuild_indexes()
    return before, searcher.is_indexed(), searcher.get_index_size()


@TABLE.scenario
def one_searcher_for_two_registries(its: Any) -> Any:
    searcher = its.BM25Search()
    one, other = its.ToolRegistry(), its.ToolRegistry()
    for registry, tools in ((one, tools_of(its)[:3]), (other, tools_of(its)[3:])):
        registry.register_searcher(its.SearchMethod.BM25, searcher)
        registry.register_many(tools)
    return [found(it.search("Create file", limit=9)) for it in (one, other, one)]


@TABLE.scenario
def use_does_not_change_the_order(its: Any) -> Any:
    registry = its.ToolRegistry()
    registry.register_searcher(its.SearchMethod.REGEX, its.RegexSearch())
    for name, times in (("report_z", 0), ("report_a", 50), ("report_m", 5)):
        registry.register(its.ToolMetadata(name=name, description="x", use_frequency=times))
    return scored(registry.search("report", its.SearchMethod.REGEX))


# Use and temperature


@TABLE.scenario
def using_a_tool(its: Any) -> Any:
    registry = registry_of(its)
    answers = [registry.update_usage("weather.query") for _ in range(2)]
    tool = registry.get_tool("weather.query")
    return {
        "answers": [*answers, registry.update_usage("no such tool")],
        "times": tool.use_frequency,
        "moment": [seconds_since(tool.last_used) < 60, tool.last_used.tzinfo],
        "json": "+" not in tool.model_dump(mode="json")["last_used"],
        "stats": registry.get_usage_stats(),
        "most": [it.name for it in registry.get_most_used(2)],
    }


@TABLE.scenario
def the_most_used_tools(its: Any) -> Any:
    registry = registry_of(its, [1, 5, 5, 0, 9])
    limits = (0, 2, 100, -1, None)
    return [[it.name for it in registry.get_most_used(it)] for it in limits], [
        it.name for it in registry.get_most_used()
    ]


@TABLE.scenario
def temperatures_when_registered(its: Any) -> Any:
    return temperatures(registry_of(its, [0, 2, 3, 9, 10, 99, -4]))


@TABLE.scenario
def a_given_temperature_gives_way_to_the_use(its: Any) -> Any:
    registry = its.ToolRegistry()
    tools = [
        its.ToolMetadata(name="a", description="", temperature=its.ToolTemperature.HOT),
        its.ToolMetadata(name="b", description="", use_frequency=50, temperature="cold"),
    ]
    before = [it.temperature for it in tools]
    registry.register_many(tools)
    return before, [it.temperature for it in tools]


@TABLE.scenario
def a_tool_gets_warm_and_hot(its: Any) -> Any:
    registry, seen = registry_of(its), list[Any]()
    for _ in range(11):
        registry.update_usage("weather.query")
        seen.append(registry.get_tool("weather.query").temperature)
    return seen


@TABLE.scenario
def an_idle_tool_keeps_its_temperature_when_registered(its: Any) -> Any:
    registry = its.ToolRegistry()
    registry.register(
        its.ToolMetadata(name="a", description="", use_frequency=50, last_used=days_ago(400))
    )
    return temperatures(registry)


def with_idle_tools(its: Any) -> Any:
    registry = its.ToolRegistry()
    registry.register_searcher(its.SearchMethod.REGEX, its.RegexSearch())
    for name, times, days in (
        *(("hot29", 50, 29), ("hot30", 50, 30), ("hot59", 50, 59), ("hot60", 50, 60)),
        *(("warm59", 5, 59), ("warm60", 5, 60), ("cold", 1, 400), ("busy", 9, 0), ("other", 0, 0)),
    ):
        moment = days_ago(days) - timedelta(minutes=1)
        registry.register(
            its.ToolMetadata(name=name, description="x", use_frequency=times, last_used=moment)
        )
    registry.register(its.ToolMetadata(name="never", description="x", use_frequency=50))
    return registry


@TABLE.scenario
def idle_tools_cool_down_when_a_warm_one_is_used(its: Any) -> Any:
    registry = with_idle_tools(its)
    registry.update_usage("busy")
    return temperatures(registry), found(registry.search_hot_warm("x", its.SearchMethod.REGEX, 99))


@TABLE.scenario
def idle_tools_stay_when_a_cold_one_is_used(its: Any) -> Any:
    registry = with_idle_tools(its)
    registry.update_usage("other")
    return temperatures(registry)


@TABLE.scenario
def an_idle_tool_is_used_again(its: Any) -> Any:
    registry = with_idle_tools(its)
    registry.update_usage("hot60")
    registry.update_usage("warm60")
    return temperatures(registry)


@TABLE.scenario
def searching_hot_and_warm_tools(its: Any) -> Any:
    registry = registry_of(its, [3, 0, 12, 5])
    return {
        "default": scored(registry.search_hot_warm("Create")),
        "regex": scored(registry.search_hot_warm("e", its.SearchMethod.REGEX)),
        "limits": [found(registry.search_hot_warm("aws", limit=it)) for it in (0, 1, 99)],
        "empty": found(registry.search_hot_warm("")),
        "then all": found(registry.search("query", its.SearchMethod.REGEX)),
        "size": registry.get_searcher(its.SearchMethod.BM25).get_index_size(),
    }


@TABLE.scenario
def there_are_no_hot_or_warm_tools(its: Any) -> Any:
    return registry_of(its).search_hot_warm("aws")


@TABLE.scenario
def a_tool_that_gets_warm_is_found_among_them(its: Any) -> Any:
    registry = registry_of(its, [9])
    before = found(registry.search_hot_warm("e", its.SearchMethod.REGEX))
    for _ in range(3):
        registry.update_usage("aws.s3.upload")
    return before, found(registry.search_hot_warm("e", its.SearchMethod.REGEX))


class HotStorage:
    """As much of a storage as a registry asks for."""

    def __init__(self, tools: list[Any]) -> None:
        self.tools = tools
        self.asked: list[Any] = []

    def load_by_temperature(self, temperature: Any, limit: int | None = None) -> list[Any]:
        self.asked.append([temperature, limit])
        return self.tools[:limit]


@TABLE.scenario
def loading_hot_tools(its: Any) -> Any:
    registry = its.ToolRegistry()
    storage = HotStorage(tools_of(its, [50, 5, 0]))
    registry.register(tools_of(its)[0])
    counts = [registry.load_hot_tools(storage, 2), registry.load_hot_tools(storage, limit=3)]
    return counts, storage.asked, temperatures(registry), registry.load_hot_tools(storage)


@TABLE.scenario
def many_threads_use_one_tool(its: Any) -> Any:
    registry = registry_of(its)
    lock = threading.Lock()

    def use() -> None:
        for _ in range(50):
            with lock:
                registry.update_usage("weather.query")

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return registry.get_usage_stats(), temperatures(registry)


@TABLE.scenario
def subclassing_a_registry(its: Any) -> Any:
    class Counting(its.ToolRegistry):
        def __init__(self) -> None:
            super().__init__()
            self.registered: list[str] = []

        def register(self, tool: Any) -> None:
            self.registered.append(tool.name)
            super().register(tool)

    registry = Counting()
    registry.register_many(tools_of(its)[:2])
    registry.load_hot_tools(HotStorage(tools_of(its, [9] * 7)[1:3]))
    return registry.registered, registry.tool_count
