import re
import threading
import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pegboard.model import CatalogChange, Tool
from pegboard.search.methods.names import (
    EXACT,
    NEAR,
    OTHERWISE_PREFIXED,
    SPELLED_OTHERWISE,
    NameIndex,
)

WORDS = ("create", "issue", "pull", "request", "list", "user", "repo", "send", "mail", "web")
names = st.lists(st.sampled_from(WORDS), min_size=2, max_size=4).map("_".join)
servers = st.sampled_from([None, "github", "web-search", "my_mail"])


def index_of(*tools: Tool) -> NameIndex:
    index = NameIndex()
    index.apply(CatalogChange(revision=1, added=tools))
    return index


def found(index: NameIndex, text: str) -> list[tuple[str, float]]:
    return [(tool.name, closeness) for tool, closeness in index.find(text)]


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


SPELLINGS: tuple[Callable[[str], str], ...] = (
    str,
    str.upper,
    str.title,
    camel,
    lambda name: name.replace("_", "-"),
    lambda name: name.replace("_", "."),
    lambda name: name.replace("_", " "),
    lambda name: name.replace("_", "  ") + "\n",
    lambda name: f"`{name}`",
    lambda name: f"{name}()",
    lambda name: unicodedata.normalize("NFKD", name),
)


@given(st.lists(names, min_size=1, max_size=20, unique=True), servers, st.data())
def test_any_spelling_of_a_name_puts_its_tool_first(
    every: list[str], server: str | None, data: st.DataObject
) -> None:
    index = index_of(*(Tool(name=name, server=server) for name in every))
    name = data.draw(st.sampled_from(every))
    spell = data.draw(st.sampled_from(SPELLINGS))
    first, closeness = found(index, spell(name))[0]
    assert squashed(first) == squashed(name)
    assert closeness >= SPELLED_OTHERWISE


@given(names, st.sampled_from(["github", "web-search"]), st.sampled_from(SPELLINGS))
def test_the_server_in_front_may_be_there_or_not(
    name: str, server: str, spell: Callable[[str], str]
) -> None:
    prefix = server.replace("-", "_")
    for full in (f"mcp_{prefix}_{name}", f"{prefix}_{name}", f"{server}.{name}"):
        index = index_of(Tool(name=full, server=server))
        assert found(index, spell(name)) == [(full, OTHERWISE_PREFIXED)]
        assert found(index, spell(full))[0][1] >= SPELLED_OTHERWISE
    index = index_of(Tool(name=name, server=server))
    assert found(index, f"{server} {name}") == [(name, OTHERWISE_PREFIXED)]


@given(names, st.data())
def test_one_typing_error_is_forgiven(name: str, data: st.DataObject) -> None:
    wrong = with_an_error(name, data)
    others = [other for other in data.draw(st.lists(names, max_size=20)) if other != name]
    index = index_of(Tool(name=name), *(Tool(name=other) for other in set(others)))
    assume(not any(squashed(other) == squashed(wrong) for other in others))
    assert name in dict(found(index, wrong))


def with_an_error(name: str, data: st.DataObject) -> str:
    at = data.draw(st.integers(0, len(name) - 2))
    letter = data.draw(st.sampled_from("abcxyz"))
    kind = data.draw(st.sampled_from(["added", "missing", "wrong", "swapped"]))
    if kind == "added":
        return name[:at] + letter + name[at:]
    if kind == "missing":
        return name[:at] + name[at + 1 :]
    if kind == "wrong":
        return name[:at] + letter + name[at + 1 :]
    return name[:at] + name[at + 1] + name[at] + name[at + 2 :]


def squashed(name: str) -> str:
    return re.sub(r"[_\s.-]", "", name).lower()


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("sendmail", "esndmail"),
        ("sendmail", "sendmial"),
        ("sendmail", "sendmali"),
        ("sendmail", "xsendmail"),
        ("sendmail", "sendmailx"),
        ("sendmail", "endmail"),
        ("sendmail", "sendmai"),
        ("sendmail", "senndmail"),
        ("abcde", "acbde"),
        ("abcde", "abce"),
        ("abcde", "abcdef"),
        ("查询天气预报", "查寻天气预报"),
    ],
)
def test_errors_of_every_kind_and_place_are_forgiven(name: str, wrong: str) -> None:
    assert found(index_of(Tool(name=name)), wrong) == [(name, NEAR)]


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("get", "set"),
        ("step_0001", "step_0002"),
        ("sha256", "sha56"),
        ("upload_v2", "upload_v"),
        ("send_email", "sned_emial"),
        ("send_email", "please send_email to Bob"),
        ("abc", "x" * 100_000),
    ],
)
def test_what_is_not_the_name_is_not_taken_for_it(name: str, other: str) -> None:
    assert found(index_of(Tool(name=name)), other) == []


def test_the_name_itself_comes_before_other_spellings() -> None:
    index = index_of(Tool(name="sendMail"), Tool(name="send_mail"), Tool(name="send_mails"))
    assert found(index, "send_mail") == [("send_mail", EXACT), ("sendMail", SPELLED_OTHERWISE)]
    assert found(index, "post.send_mail") == []


def test_a_prefix_is_one_only_at_a_border() -> None:
    index = index_of(Tool(name="gitlab_push", server="git"))
    assert found(index, "lab push") == []
    assert found(index, "git gitlab push") == [("gitlab_push", OTHERWISE_PREFIXED)]


@pytest.mark.parametrize("name", ["++", "_", "C#", "🎉", "...", "ﬁle"])
def test_strange_names_are_found_by_themselves(name: str) -> None:
    assert found(index_of(Tool(name=name), Tool(name="other")), name)[0] == (name, EXACT)


def test_c_sharp_is_not_c() -> None:
    assert found(index_of(Tool(name="c#"), Tool(name="c++")), "c") == []


changes = st.lists(
    st.tuples(st.sampled_from(["add", "remove"]), st.sampled_from(["a_tool", "aTool", "b.tool"])),
    max_size=30,
)


@given(changes, servers)
def test_an_index_fed_by_changes_finds_as_one_made_afresh(
    steps: list[tuple[str, str]], server: str | None
) -> None:
    index, there = NameIndex(), dict[str, Tool]()
    for revision, (verb, name) in enumerate(steps):
        if verb == "remove":
            gone = there.pop(name, None)
            removed = () if gone is None else (gone,)
            index.apply(CatalogChange(revision=revision, removed=removed))
        else:
            tool = Tool(name=name, server=server if revision % 2 else None)
            kind = "changed" if name in there else "added"
            there[name] = tool
            index.apply(CatalogChange(revision=revision, **{kind: (tool,)}))
    fresh = index_of(*there.values())
    assert len(index) == len(there)
    assert set(index.tools()) == set(there.values())
    for text in ("a_tool", "tool", "atol", "b tool", "github a_tool", "btoool"):
        assert index.find(text) == fresh.find(text)


def same_spelling(number: int) -> str:
    """Return one of many names that differ only in their separators."""
    marks = (letter + "_" * (number >> place & 1) for place, letter in enumerate("getuserbyid"))
    return f"{''.join(marks)}andname"


def test_many_tools_of_one_spelling_are_looked_at_in_part_and_removed_one_by_one() -> None:
    tools = [Tool(name=same_spelling(number), description="x") for number in range(2000)]
    index = index_of(*tools)
    asked = tools[-1].name
    first, *others = found(index, asked)
    assert first == (asked, EXACT)
    assert 999 <= len(others) <= 1000
    assert {closeness for _, closeness in others} == {SPELLED_OTHERWISE}
    index.apply(CatalogChange(revision=2, removed=tuple(tools[:-3])))
    assert found(index, asked) == [
        (asked, EXACT),
        *sorted((it.name, SPELLED_OTHERWISE) for it in tools[-3:-1]),
    ]
    index.apply(CatalogChange(revision=3, removed=tuple(tools)))
    assert found(index, asked) == []
    assert len(index) == 0


def test_readers_are_not_disturbed_by_a_writer() -> None:
    index = index_of(Tool(name="send_email"))
    done, failures = threading.Event(), list[BaseException]()

    def read() -> None:
        try:
            while not done.is_set():
                assert found(index, "send_emial") == [("send_email", NEAR)]
        except BaseException as error:  # noqa: BLE001 - told to the thread that waits
            failures.append(error)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for number in range(300):
        tool = Tool(name=f"sendxemail{number}")
        index.apply(CatalogChange(revision=number, added=(tool,)))
        index.apply(CatalogChange(revision=number, removed=(tool,)))
    done.set()
    for reader in readers:
        reader.join()
    assert failures == []


def test_a_whole_name_with_a_typo_comes_before_the_end_of_another() -> None:
    index = NameIndex()
    tools = (Tool(name="language_translator.translate"), Tool(name="translate"))
    index.apply(CatalogChange(revision=1, added=tools))
    assert next(tool.name for tool, _ in index.find("tranlate")) == "translate"
