import logging
import re
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegboard import ToolConflictError, ToolNotFoundError
from pegboard.errors import InvalidToolError
from pegboard.model.tool_names import (
    MAX_READ,
    NameTable,
    Naming,
    double_underscore,
    legal_name,
    mcp,
    naming_of,
    nearest_names,
    plain,
    prefixed,
)

LEGAL = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
# Many of these fall together once they are normalised.
CLOSE = st.text(alphabet="aA_-./ é\0", max_size=4)
ANY = st.text(st.characters(), max_size=100)
IDENTITIES = st.lists(st.tuples(CLOSE | ANY, CLOSE | ANY), max_size=30)


@pytest.mark.covers("R-EXCEL-38")
@pytest.mark.parametrize(
    ("naming", "server", "tool", "name"),
    [
        (mcp, "web-search", "search", "mcp_web_search_search"),
        (mcp, "filesystem", "read_file", "mcp_filesystem_read_file"),
        (double_underscore, "web-search", "search", "web-search__search"),
        (plain, "web-search", "search", "search"),
        (prefixed("fs_"), "web-search", "search", "fs_search"),
        ("mcp", "web-search", "read-me", "mcp_web_search_read-me"),
        ("double_underscore", "a", "b", "a__b"),
        ("plain", "a", "b", "b"),
        ("{tool}.{server}{x}", "{tool}", "b", "b.{tool}{x}"),
    ],
)
def test_each_policy_names_a_tool_in_its_way(
    naming: Naming | str, server: str, tool: str, name: str
) -> None:
    assert naming_of(naming)(server, tool) == name


def test_an_unknown_policy_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="'double_underscore'"):
        naming_of("sideways")


def test_a_legal_name_is_left_alone_and_any_other_gets_a_hash() -> None:
    assert legal_name("read-file_2", ("s", "t")) == "read-file_2"
    assert legal_name("x" * 64, ("s", "t")) == "x" * 64
    assert legal_name("read.file", ("s", "t")) == "read_file_12dce344"
    assert legal_name("x" * 65, ("s", "t")) == "x" * 55 + "_12dce344"
    assert legal_name("", ("s", "t")) == "_12dce344"
    assert legal_name("read\n", ("s", "t")) == "read__12dce344"


@pytest.mark.covers("R-EXCEL-45")
@given(IDENTITIES, st.sampled_from(["mcp", "double_underscore", "plain", "{tool}"]))
def test_every_name_is_legal_and_leads_back_to_its_tool(
    identities: list[tuple[str, str]], naming: str
) -> None:
    table = NameTable(naming, taken=lambda name: name == "a")
    names = [table.assign(*identity) for identity in identities]
    for identity, name in zip(identities, names, strict=True):
        assert name is not None
        assert LEGAL.match(name)
        assert name != "a"
        assert table.origin(name) == identity
        assert table.exposed(*identity) == name
        assert table.assign(*identity) == name
    assert len(set(names)) == len(set(identities)) == len(table)


@given(st.sets(st.tuples(CLOSE, CLOSE), max_size=20), st.randoms(use_true_random=False))
def test_the_order_does_not_matter_to_tools_that_do_not_collide(
    identities: set[tuple[str, str]], random: object
) -> None:
    by_name: dict[str, list[tuple[str, str]]] = {}
    for identity in sorted(identities):
        by_name.setdefault(legal_name(mcp(*identity), identity), []).append(identity)
    alone = [group[0] for group in by_name.values() if len(group) == 1]
    forwards, backwards = NameTable(), NameTable()
    for identity in alone:
        forwards.assign(*identity)
    random.shuffle(alone)  # pyright: ignore[reportAttributeAccessIssue]
    for identity in alone:
        backwards.assign(*identity)
    assert forwards.assigned() == backwards.assigned()


def test_a_released_name_is_free_again() -> None:
    table = NameTable("plain")
    assert table.assign("a", "run") == "run"
    assert table.release("a", "run") == "run"
    assert table.release("a", "run") is None
    assert table.exposed("a", "run") is None
    assert "run" not in table
    assert table.assign("b", "run") == "run"
    assert table.origin("run") == ("b", "run")


def test_a_name_from_an_earlier_run_is_kept_if_it_is_legal_and_free() -> None:
    table = NameTable("plain")
    assert table.assign("a", "run", wanted="run_old") == "run_old"
    assert table.assign("b", "run", wanted="run_old") == "run"
    assert table.assign("c", "walk", wanted="not legal") == "walk"
    assert table.assigned() == {("a", "run"): "run_old", ("b", "run"): "run", ("c", "walk"): "walk"}
    again = NameTable("plain", taken={"run"}.__contains__)
    for identity, name in table.assigned().items():
        again.assign(*identity, wanted=name)
    assert again.exposed("a", "run") == "run_old"
    assert again.exposed("b", "run") == legal_name("run ", ("b", "run")).replace("__", "_")


def test_only_so_many_names_are_read_for_a_hint() -> None:
    read = 0

    def names() -> Iterator[str]:
        nonlocal read
        for number in range(100_000):
            read += 1
            yield f"tool_{number}"

    assert nearest_names("tool_12345", names())
    assert read <= MAX_READ


def test_an_unknown_name_is_not_found_but_a_near_one_is_told() -> None:
    table = NameTable()
    table.assign("files", "read")
    with pytest.raises(ToolNotFoundError) as raised:
        table.origin("mcp_files_raed")
    assert raised.value.nearest == ("mcp_files_read",)


def test_a_conflict_is_raised_when_asked_for() -> None:
    table = NameTable(on_conflict="raise")
    table.assign("a-b", "c")
    with pytest.raises(ToolConflictError) as raised:
        table.assign("a_b", "c")
    assert raised.value.name == "mcp_a_b_c"
    assert table.exposed("a_b", "c") is None


def test_a_renamed_newcomer_gets_a_hash_and_no_other_name_changes() -> None:
    table = NameTable(on_conflict="rename", taken={"mcp_x_local"}.__contains__)
    assert table.assign("a-b", "c") == "mcp_a_b_c"
    renamed = table.assign("a_b", "c")
    assert renamed is not None
    assert re.fullmatch(r"mcp_a_b_c_[0-9a-f]{8}", renamed)
    assert table.origin("mcp_a_b_c") == ("a-b", "c")
    assert table.assign("x", "local") != "mcp_x_local"


def test_a_skipped_newcomer_is_warned_about_once(caplog: pytest.LogCaptureFixture) -> None:
    table = NameTable("plain", on_conflict="skip", taken={"local"}.__contains__)
    with caplog.at_level(logging.WARNING, "pegboard.model"):
        assert table.assign("a", "local") is None
        assert table.assign("a", "local") is None
    assert len(caplog.records) == 1
    assert table.nameless() == {("a", "local"): "local"}
    table.release("a", "local")
    assert table.nameless() == {}


def test_an_overriding_newcomer_keeps_the_name_and_the_loser_is_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    table = NameTable("plain", on_conflict="override", taken={"local"}.__contains__)
    assert table.assign("a", "local") == "local"
    assert table.assign("a", "run") == "run"
    with caplog.at_level(logging.WARNING, "pegboard.model"):
        assert table.assign("b", "run") == "run"
    assert len(caplog.records) == 1
    assert table.origin("run") == ("b", "run")
    assert table.nameless() == {("a", "run"): "run"}
    assert table.assign("a", "run") is None, "the two would take it from each other for ever"
    table.release("b", "run")
    assert table.assign("a", "run") == "run"
    assert table.nameless() == {}


def test_a_policy_that_gives_no_string_concerns_one_tool_only() -> None:
    table = NameTable(lambda server, tool: None if tool == "bad" else tool)  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidToolError, match="'bad'"):
        table.assign("a", "bad")
    assert table.assign("a", "good") == "good"


def test_a_policy_that_fails_concerns_one_tool_only() -> None:
    table = NameTable(lambda server, tool: {"good": "fine"}[tool])
    with pytest.raises(InvalidToolError, match="'bad' of server 'a': KeyError"):
        table.assign("a", "bad")
    assert table.assign("a", "good") == "fine"


def test_an_unknown_way_to_settle_conflicts_is_refused() -> None:
    with pytest.raises(ValueError, match="on_conflict"):
        NameTable(on_conflict="shrug")  # pyright: ignore[reportArgumentType]


def test_threads_never_give_one_name_to_two_tools() -> None:
    table = NameTable("plain")
    barrier = threading.Barrier(8)

    def assign(server: str) -> None:
        barrier.wait(5)
        for number in range(200):
            table.assign(server, f"tool{number}")

    threads = [threading.Thread(target=assign, args=(f"s{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)
    names = table.assigned()
    assert len(names) == len(set(names.values())) == 1600
    assert all(table.origin(name) == identity for identity, name in names.items())
