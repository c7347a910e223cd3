import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pegboard import Access, Hub, Registry, Tool, Usage
from pegboard.errors import InvalidQueryError
from pegboard.registry.usage_boost import usage_boost_of
from pegboard.search import SearchResponse
from pegboard.storage import Use, open_store
from pegboard.storage.open_store import index_place
from pegboard.testing import Memory
from tests.search.searchers import Everything

NOW = datetime(2026, 11, 16, tzinfo=UTC)


def names(answer: SearchResponse) -> list[str]:
    return [hit.tool.name for hit in answer.hits]


def double(number: int) -> int:
    """Multiply a number by two."""
    return 2 * number


def registry_of(*names: str) -> Registry:
    registry = Registry()
    for name in names:
        registry.register(Tool(name=name))
    return registry


def test_functions_and_definitions_are_found_as_soon_as_they_are_registered() -> None:
    registry = Registry()
    registry.register(double)
    assert names(registry.search("multiply", method="regex")) == ["double"]
    registry.register(Tool(name="halve", description="Divide by two."))
    assert names(registry.search("divide", method="regex")) == ["halve"]
    registry.unregister("halve")
    assert names(registry.search("divide", method="regex")) == []


def test_what_cannot_be_seen_cannot_be_found() -> None:
    registry = Registry(access=Access(deny=["secret_*"]))
    registry.register(Tool(name="secret_report"))
    registry.register(Tool(name="report"), groups=["papers"])
    assert names(registry.search("report", method="regex")) == ["report"]
    registry.disable_group("papers")
    assert names(registry.search("report", method="regex")) == []
    registry.enable_group("papers")
    assert names(registry.search("report", method="regex")) == ["report"]


def test_groups_narrow_a_search() -> None:
    registry = Registry()
    registry.register_many([Tool(name=f"report_{it}") for it in range(50)], groups=["many"])
    registry.register(Tool(name="report_special"), groups=["few", "rare"])
    found = registry.search("report", method="regex", groups=["few", "absent"])
    assert names(found) == ["report_special"]
    assert registry.search("zzz.*", method="regex", groups=["few"]) == SearchResponse()
    assert registry.search("report", method="regex", groups=["fwe"]).hints == ("group: few",)
    with pytest.raises(InvalidQueryError):
        registry.search("report", groups="few")


def test_a_function_narrows_a_search_and_hides_groups_from_its_hints() -> None:
    registry = Registry()
    registry.register_many([Tool(name=f"report_{it}") for it in range(50)], groups=["many"])
    registry.register(Tool(name="report_special"), groups=["few"])

    def is_special(tool: Tool) -> bool:
        return tool.name == "report_special"

    assert names(registry.search("report", where=is_special)) == ["report_special"]
    [found] = registry.search_many(["report"], where=is_special, groups=["few"], limit=1)
    assert names(found) == ["report_special"]
    found = registry.search("report", where=is_special, groups=["many"])
    assert found == SearchResponse(hints=("group: few",))


def test_a_search_is_warm_once_index_and_usage_are_read(tmp_path: Path) -> None:
    with Registry(storage=tmp_path / "tools.db") as registry:
        registry.register(Tool(name="report"))
        assert not registry.is_search_quick("text", method="bm25")
        registry.search("report", method="bm25", usage=False)
        assert not registry.is_search_quick("text", method="bm25")
        registry.search("report", method="bm25")
        assert registry.is_search_quick("text", method="bm25")
        assert not registry.is_search_quick("text", method="hybrid")
        registry.register(Tool(name="other"))
        assert not registry.is_search_quick("text", method="bm25")


def test_many_texts_are_searched_for_at_once() -> None:
    registry = registry_of("send_email", "read_inbox")
    answers = registry.search_many(["email", "inbox"], method="regex", limit=1)
    assert [names(it) for it in answers] == [["send_email"], ["read_inbox"]]
    assert registry.search_many([], method="regex") == []


@pytest.mark.parametrize("name", ["get_weather_report", "mcp_sky_report"])
def test_the_name_of_a_tool_finds_it(name: str) -> None:
    registry = registry_of("report", "weather", "get_weather_report", "mcp_sky_report")
    for text in (name, name.upper(), name.replace("_", " "), name[:4] + name[5:]):
        assert names(registry.search(text, method="regex", limit=1)) == [name]


def test_a_method_of_ones_own_is_used() -> None:
    registry = registry_of("a", "b")
    registry.add_searcher("all", Everything)
    assert names(registry.search("whatever", method="all")) == ["a", "b"]


def test_a_registry_is_searched_while_it_changes() -> None:
    registry, failures = registry_of("steady"), list[str]()

    def add_and_find(who: int) -> None:
        for number in range(60):
            name = f"tool_{who}_{number}x"
            registry.register(Tool(name=name))
            if names(registry.search(name, method="regex", limit=1)) != [name]:
                failures.append(name)
            registry.unregister(name)
            if name in names(registry.search(name, method="regex")):
                failures.append(f"still {name}")

    threads = [threading.Thread(target=add_and_find, args=(who,)) for who in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_subscriber_finds_what_it_is_told_of() -> None:
    registry, found = registry_of("first"), list[list[str]]()
    registry.search("first", method="regex")
    registry.subscribe(
        lambda change: found.append(names(registry.search(change.added[0].name, method="regex")))
    )
    registry.register(Tool(name="second"))
    assert found == [["second"]]


def test_tools_that_are_used_come_before_others_that_fit_alike(tmp_path: Path) -> None:
    with open_store(tmp_path / "tools.db") as store:
        store.save_many([Tool(name=f"report_{it}x") for it in "abc"])
        store.add_usage({"report_bx": Use(5, datetime.now(UTC))})
    with Registry(storage=tmp_path / "tools.db") as registry:
        assert names(registry.search("report_", method="regex"))[0] == "report_bx"
        assert names(registry.search("report_", method="regex", usage=False))[0] == "report_ax"
    assert names(registry.search("report_", method="regex")) == []


def test_search_goes_on_when_usage_cannot_be_read() -> None:
    store = Memory().open()
    registry = Registry(storage=store)
    registry.register(Tool(name="report"))
    store.close()
    assert names(registry.search("report", method="regex")) == ["report"]


@pytest.mark.parametrize(
    ("uses", "days", "least", "most"),
    [
        (0, 0, 0.0, 0.0),
        (1, 0, 0.1, 0.2),
        (100, 0, 1.0, 1.0),
        (10**9, 0, 1.0, 1.0),
        (100, 30, 0.5, 0.5),
        (100, 3650, 0.0, 0.001),
        (100, -5, 1.0, 1.0),
    ],
)
def test_heat_is_between_none_and_one_and_cools_down(
    uses: int, days: int, least: float, most: float
) -> None:
    usage = Usage(use_frequency=uses, last_used=NOW - timedelta(days=days))
    assert least <= usage_boost_of(usage, NOW) <= most
    assert usage_boost_of(Usage(use_frequency=uses), NOW) == 0.0


def test_the_index_has_its_place_beside_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for url in ("tools.db", f"sqlite://{tmp_path}/tools.db"):
        with open_store(url) as store:
            assert index_place(store) == tmp_path / "tools.db.search"
    with open_store("tools.json") as store:
        assert index_place(store) == tmp_path / "tools.json.search"
    with open_store("tools.db", tenant="../../red") as store:
        place = index_place(store)
    assert place is not None
    assert place.parent == tmp_path
    assert place.name != "tools.db.search"
    assert index_place(Memory().open()) is None


async def test_a_hub_searches_what_its_board_has() -> None:
    async with Hub.open({"mcpServers": {}}) as hub:
        hub.registry.register(Tool(name="send_email"))
        assert names(await hub.search("email", method="regex")) == ["send_email"]
        [answer] = await hub.search_many(["mail"], method="regex")
        assert names(answer) == ["send_email"]
        with pytest.raises(InvalidQueryError):
            await hub.search(" ")


def test_a_hub_without_an_event_loop_searches_too() -> None:
    with Hub.open_sync({"mcpServers": {}}) as hub:
        hub.registry.register(Tool(name="send_email"))
        assert names(hub.search("email", method="regex")) == ["send_email"]
        assert names(hub.search_many(["mail"], method="regex")[0]) == ["send_email"]


def test_filters_that_can_be_read_only_once_count_for_every_text() -> None:
    registry = Registry()
    registry.register(Tool(name="send_email", description="Send an email.", server="a"))
    registry.register(Tool(name="create_invoice", description="Create an invoice.", server="b"))
    texts = ["send an email", "create an invoice"]
    answers = registry.search_many(texts, servers=(it for it in ["a"]))
    assert [names(answer) for answer in answers] == [["send_email"], []]


def test_a_single_text_where_several_belong_is_refused() -> None:
    with pytest.raises(InvalidQueryError, match="takes several texts"):
        registry_of("send_email").search_many("email")


def test_groups_without_tools_need_no_search() -> None:
    registry, searcher = registry_of("send_email"), Everything()
    registry.register(Tool(name="read"), groups=["readers"])
    registry.add_searcher("all", lambda: searcher)
    answers = registry.search_many(["x", "y"], method="all", groups=["reader"])
    assert [(answer.hits, answer.hints) for answer in answers] == [((), ("group: readers",))] * 2
    assert not searcher.asked
    with pytest.raises(InvalidQueryError, match="No searcher is named 'nope'"):
        registry.search("x", method="nope", groups=["reader"])
