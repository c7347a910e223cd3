"""ScannedNames finds what NameIndex finds."""

from hypothesis import given
from hypothesis import strategies as st

from pegboard.model import CatalogChange, Tool
from pegboard.search.methods.names import NameIndex, ScannedNames

words = st.sampled_from(["get", "Issue", "list", "mail", "send", "Größe", "ab", "12"])
servers = st.sampled_from([None, "git", "my-mail", "mcp"])
borders = st.sampled_from(["_", "__", "-", ".", "", "/"])


@st.composite
def names(draw: st.DrawFn, server: str | None) -> str:
    parts = draw(st.lists(words, min_size=1, max_size=3))
    border = draw(borders)
    prefix = draw(st.sampled_from(["", "mcp_", f"{server or 'x'}{border}", f"mcp_{server}_"]))
    return prefix + border.join(parts)


@st.composite
def tools(draw: st.DrawFn) -> Tool:
    server = draw(servers)
    return Tool(name=draw(names(server)), server=server)


@st.composite
def texts(draw: st.DrawFn) -> str:
    text = draw(names(draw(servers)))
    at = draw(st.integers(0, len(text)))
    typo = draw(st.sampled_from(["", "x", "7"]))
    wrapped = draw(st.sampled_from(["{}", '"{}"', "{}()", " {} ", "`{}`"]))
    return wrapped.format(text[:at] + typo + text[at + draw(st.integers(0, 1)) :])


@given(st.lists(tools(), max_size=12), texts())
def test_looking_at_every_name_finds_what_prepared_names_find(board: list[Tool], text: str) -> None:
    prepared, scanned = NameIndex(), ScannedNames()
    change = CatalogChange(revision=1, added=tuple({it.name: it for it in board}.values()))
    prepared.apply(change)
    scanned.apply(change)
    assert scanned.find(text) == prepared.find(text)
    assert scanned.tools() == prepared.tools()


def test_what_left_is_not_found() -> None:
    tool = Tool(name="send_mail")
    board = ScannedNames()
    board.apply(CatalogChange(revision=1, added=(tool,)))
    assert [it.name for it, _ in board.find("send mail")] == ["send_mail"]
    board.apply(CatalogChange(revision=2, removed=(tool,)))
    assert board.find("send_mail") == []
    assert len(board) == 0
