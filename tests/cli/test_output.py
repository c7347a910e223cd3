"""What commands print."""

import io
import json
import sys
import unicodedata

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegboard.cli.terminal.output import (
    ask,
    complain,
    say,
    say_wrapped,
    show_table,
    warn,
    write_json,
)
from pegboard.cli.terminal.plain_text import (
    columns_of,
    cut_in_the_middle,
    escaped,
    fitting_widths,
    one_line,
    printable,
    width_of,
    without_folder,
)

Captured = pytest.CaptureFixture[str]


class Terminal(io.StringIO):
    """Standard output is a terminal."""

    def isatty(self) -> bool:
        return True


def at_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    found = Terminal()
    monkeypatch.setattr(sys, "stdout", found)
    monkeypatch.setattr(sys, "stderr", found)
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return found


def test_nobody_looking_gets_columns_without_ends_of_blanks(capsys: Captured) -> None:
    rows = [("付款", "1", "a\nb"), ("longer name", "1,000", "\x1b[31mred")]
    show_table(("tool", "calls", "about"), rows, right=("calls",))
    assert capsys.readouterr().out.splitlines() == [
        "tool         calls  about",
        "付款             1  a b",
        "longer name  1,000  \\u001b[31mred",
    ]


def test_a_person_gets_a_table_as_wide_as_the_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = at_terminal(monkeypatch)
    show_table(("tool", "about"), [("a_name_of_twenty_four_ch", "words " * 30)])
    lines = terminal.getvalue().splitlines()
    assert (len(lines), len(lines[1])) == (2, 40)
    assert lines[1].startswith("a_name_of_twenty_four_ch  words")
    assert lines[1].endswith("…")


@given(st.text() | st.text(st.characters(categories=["Cc", "Cf", "Zl", "Zp"])))
def test_json_on_a_terminal_steers_and_hides_nothing(text: str) -> None:
    written = escaped(msgspec.json.encode([text]).decode())
    assert json.loads(written) == [text]
    assert all(unicodedata.category(it) not in ("Cc", "Zl", "Zp") for it in written)
    assert "\u202e" not in written


def test_json_is_escaped_on_a_terminal_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    write_json(["\x9b31m\u202e\U000e0041"])
    assert "\u202e" in capsys.readouterr().out
    terminal = at_terminal(monkeypatch)
    write_json(["\x9b31m\u202e\U000e0041 付款"])
    assert terminal.getvalue().split() == ["[", r'"\u009b31m\u202e\udb40\udc41', '付款"', "]"]


def test_ten_thousand_rows_are_written_plainly_also_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = at_terminal(monkeypatch)
    show_table(("tool", "about"), ((f"tool_{it}", "does it") for it in range(10_000)))
    lines = terminal.getvalue().splitlines()
    assert (len(lines), lines[-1]) == (10_001, "tool_9999  does it")


def test_a_table_of_nothing_is_its_head(capsys: Captured) -> None:
    show_table(("one", "two"), [])
    assert capsys.readouterr().out == "one  two\n"


@given(st.lists(st.tuples(st.text(max_size=8), st.text(max_size=8)), min_size=1, max_size=5))
def test_every_row_is_one_line_that_steers_nothing(rows: list[tuple[str, str]]) -> None:
    lines = list(columns_of(rows, ["<", ">"]))
    assert len(lines) == len(rows)
    assert all("\x1b" not in line and "\n" not in line for line in lines)


@given(
    st.lists(
        st.lists(st.text("ab付", max_size=30), min_size=3, max_size=3), min_size=1, max_size=4
    ),
    st.integers(1, 100),
)
def test_a_table_fits_and_its_first_column_is_whole(rows: list[list[str]], room: int) -> None:
    whole, widths = fitting_widths(rows, 10_000), fitting_widths(rows, room)
    assert widths[0] == whole[0]
    assert sum(widths) + 2 * (len(widths) - 1) <= room or len(widths) == 1
    assert all(one <= other for one, other in zip(widths, whole, strict=False))
    assert all(one >= min(other, 4) for one, other in zip(widths, whole, strict=False))
    # What stands above a column is whole, or the column is not there.
    headings = fitting_widths(rows[:1], 10_000)
    assert all(one >= other for one, other in zip(widths, headings, strict=False))


@pytest.mark.parametrize("name", ["w8i33e547iq2", "a_name_that_is_wider_than_a_terminal_of_forty"])
def test_what_people_type_next_is_whole_on_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    terminal = at_terminal(monkeypatch)
    show_table(["id", *("many_letters" for _ in range(9))], [[name, *["some words"] * 9]])
    lines = terminal.getvalue().splitlines()
    assert lines[2].startswith("The terminal is too narrow for:")
    assert lines[1].split()[0] == name
    assert len(lines[1].rstrip()) <= max(40, len(name))


def test_numbers_and_states_are_whole_or_left_out_and_then_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = at_terminal(monkeypatch)
    columns = ("ID", "NAME", "STATE", "USES")
    row = ("abc", "words " * 9, "no such file", "1,000,000")
    show_table(columns, [row], right=["USES"], whole=["STATE"])
    show_table((*columns, "TENANT"), [(*row, "default")], right=["USES"], whole=["STATE"])
    lines = terminal.getvalue().splitlines()
    assert lines[1] == lines[3]
    assert lines[1].startswith("abc ")
    assert lines[1].endswith("…  no such file  1,000,000")
    assert " ".join(lines[4:]) == "The terminal is too narrow for: TENANT; `--json` shows all."


def test_a_command_line_keeps_both_ends_and_its_program_is_named_without_a_folder(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    row = ("a", "/home/me/.venv/bin/python -m a_server_with_a_long_name --root /home/me/documents")
    show_table(("SERVER", "WHERE"), [row], commands=["WHERE"])
    assert row[1] in capsys.readouterr().out
    terminal = at_terminal(monkeypatch)
    show_table(("SERVER", "WHERE"), [row], commands=["WHERE"])
    assert terminal.getvalue().splitlines()[1] == "a       python -m a_serv…me/me/documents"
    assert without_folder("https://docs.example.com/mcp") == "https://docs.example.com/mcp"


@given(st.text("ab付"), st.integers(3, 40))
def test_what_is_cut_in_the_middle_is_no_wider_than_asked(text: str, width: int) -> None:
    cut = cut_in_the_middle(text, width)
    assert width_of([[cut]]) <= width
    assert (cut == text) == (width_of([[text]]) <= width)


@given(st.text())
def test_what_steers_a_terminal_is_made_harmless_once_and_for_all(text: str) -> None:
    shown = printable(text)
    assert printable(shown) == shown
    assert not set(shown) & {"\x1b", "\x07", "\r", "\x9b", "\u202e"}
    assert "\n" not in one_line(text)


def test_a_terminal_is_not_steered_and_a_pipe_gets_what_there_is(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    say("a\x1b]0;title\x07b")
    assert capsys.readouterr().out == "a\x1b]0;title\x07b\n"
    monkeypatch.setattr(sys, "stderr", Terminal())
    warn("a\x1bb")
    complain("\x1b[2Jgone")
    shown = sys.stderr.getvalue()  # pyright: ignore[reportAttributeAccessIssue]
    assert shown.startswith("a\\u001bb\n")
    assert "\\u001b[2Jgone" in shown


def test_json_is_one_document(capsys: Captured) -> None:
    write_json([{"name": "付款"}])
    assert json.loads(capsys.readouterr().out) == [{"name": "付款"}]


def test_where_nobody_is_the_default_is_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert (ask("Really?"), ask("Really?", default=True)) == (False, True)


@pytest.mark.parametrize(
    ("typed", "default", "answer"),
    [
        ("y", False, True),
        ("YES", False, True),
        ("", True, True),
        ("", False, False),
        ("n", True, False),
        ("what", True, False),
    ],
)
def test_a_person_is_asked(
    typed: str, default: bool, answer: bool, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(f"{typed}\n"))
    assert ask("Really?", default=default) is answer
    said = capsys.readouterr()
    assert (said.out, said.err[:8]) == ("", "Really? ")


def test_json_is_json_where_only_ascii_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="backslashreplace")
    monkeypatch.setattr(sys, "stdout", out)
    write_json([{"name": "é付"}])
    out.flush()
    assert json.loads(out.buffer.getvalue()) == [{"name": "é付"}]  # pyright: ignore[reportAttributeAccessIssue]


def test_a_long_line_is_wrapped_between_words_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = at_terminal(monkeypatch)
    path = "/a/path/without-spaces/that-is-longer/than-the-terminal-is-wide.json"
    warn(f"  The configuration file is at {path}, and nothing is broken.")
    say_wrapped("one two three four five six seven eight nine", indent=2)
    assert found.getvalue().splitlines() == [
        "  The configuration file is at",
        f"  {path},",
        "  and nothing is broken.",
        "  one two three four five six seven",
        "  eight nine",
    ]


def test_states_are_coloured_unless_that_is_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [("a", "ready"), ("b", "down"), ("c", "unheard of")]
    found = at_terminal(monkeypatch)
    show_table(("SERVER", "STATE"), rows)
    assert "\x1b[32mready" in found.getvalue()
    assert "\x1b[1;31mdown" in found.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    found = at_terminal(monkeypatch)
    monkeypatch.setenv("NO_COLOR", "1")
    show_table(("SERVER", "STATE"), rows)
    assert "[32m" not in found.getvalue()
    assert "31m" not in found.getvalue()


def test_a_table_without_a_terminal_has_no_colours(capsys: Captured) -> None:
    show_table(("SERVER", "STATE"), [("a", "ready")])
    assert capsys.readouterr().out == "SERVER  STATE\na       ready\n"
