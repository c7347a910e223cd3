"""`pegboard call`."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from pegboard import Tool, open_store
from tests.cli.handy import SCRIPT, Home, Terminal


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home whose server is remembered."""
    home = Home(tmp_path_factory.mktemp("home"))
    assert home.main("tools").returncode == 0
    return home


def called(home: Home, *words: str, stdin: str = "") -> Any:
    ran = home.main("call", "mcp_handy_echo", *words, "--structured", stdin=stdin)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_values_are_typed_by_the_schema(home: Home) -> None:
    words = ["text=42", "number=42", "ratio=2", "loud=yes", "tags=a", "tags=b", "sizes=[1,2]"]
    words += ["style=warm", "place.city=Oslo", "place.zip=150", "either=7"]
    assert called(home, *words) == {
        "text": "42",
        "number": 42,
        "ratio": 2,
        "loud": True,
        "tags": ["a", "b"],
        "sizes": [1, 2],
        "style": "warm",
        "place": {"city": "Oslo", "zip": 150},
        "either": 7,
    }


def test_arguments_come_as_json_from_files_and_from_standard_input(home: Home) -> None:
    (home.folder / "words.txt").write_text("from a file", encoding="utf-8")
    assert called(home, "text=@words.txt") == {"text": "from a file"}
    assert called(home, "text=@@home", "tags:=[]") == {"text": "@home", "tags": []}
    assert called(home, "--args", '{"text": "a", "number": 1}', "number=2") == {
        "text": "a",
        "number": 2,
    }
    assert called(home, "-", stdin='{"text": "piped"}') == {"text": "piped"}


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["number=x", "text=a"], "`number` takes integer, not 'x'"),
        (["text=a", "style=cold"], "one of plain, warm, 3"),
        (["text=a", "sizes=1,2"], "`sizes` takes integer[], not '1,2': write sizes='[1,2]'."),
        (["text=a", "place=Oslo"], """write place='{"city":"text"}'."""),
        (["text=a", "nonsense=1"], "nonsense"),
        (["--args", "[]"], "--args takes a JSON object"),
        (["text"], "write `key=value`"),
        (["text=a", "text=b"], "given several times"),
        (["text=@nowhere.txt"], "cannot be read"),
        (["place=1", "place.city=a", "text=b"], "place"),
        ([], "the required argument `text` is missing"),
    ],
)
def test_wrong_arguments_are_refused_with_the_signature(
    home: Home, words: list[str], problem: str
) -> None:
    before = home.starts()
    ran = home.main("call", "mcp_handy_echo", *words)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert problem in ran.stderr
    assert "mcp_handy_echo(text: string, number?: integer" in ran.stderr
    assert home.starts() == before


def test_an_unknown_tool_is_not_found_and_near_names_are_told(home: Home) -> None:
    ran = home.main("call", "echo")
    assert ran.returncode == 3
    assert "'mcp_handy_echo'" in ran.stderr


def test_the_error_of_a_tool_is_told_and_the_call_counts_as_failed(home: Home) -> None:
    ran = home.main("call", "mcp_handy_fail")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "It is broken." in ran.stderr
    whole = home.main("call", "mcp_handy_fail", "--json")
    assert whole.returncode == 1
    assert json.loads(whole.stdout)["isError"] is True


def test_pictures_and_other_bytes_are_saved_and_nothing_is_overwritten(home: Home) -> None:
    ran = home.main("call", "mcp_handy_draw", "--save-to", "pictures")
    assert ran.stdout == "Here:\n"
    saved = sorted(it.name for it in (home.folder / "pictures").iterdir())
    assert saved == ["mcp_handy_draw-1.bin", "mcp_handy_draw-1.png", "mcp_handy_draw-2.png"]
    assert (home.folder / "pictures/mcp_handy_draw-1.png").read_bytes() == b"\x89PNG"
    assert ran.stderr.count("Saved: ") == 3


def test_progress_is_told_on_standard_error(home: Home) -> None:
    ran = home.main("call", "mcp_handy_steps")
    assert ran.stdout == "done\n"
    assert "50% step 1" in ran.stderr


def test_questions_are_declined_where_nobody_could_answer(home: Home) -> None:
    ran = home.main("call", "mcp_handy_ask")
    assert json.loads(ran.stdout) == {"action": "decline"}
    assert "'handy' asks: Who?" in ran.stderr


def test_a_request_to_a_model_is_refused_in_words(home: Home) -> None:
    ran = home.main("call", "mcp_handy_think")
    assert "There is no model here" in json.loads(ran.stdout)["message"]
    assert "asks for an answer from a model" in ran.stderr


def test_a_call_that_takes_too_long_is_given_up(home: Home) -> None:
    # What the start of the server takes, to list its tools, is a part of it.
    ran = home.main("call", "mcp_handy_wait", "--refresh", "--timeout", "3")
    assert ran.returncode == 1
    assert "error: Tool 'mcp_handy_wait' did not finish within 3 s." in ran.stderr
    assert "give `--timeout` more" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_person_is_asked_for_what_is_missing(home: Home) -> None:
    with Terminal(home, ["call", "mcp_handy_echo", "number=1", "--structured"]) as terminal:
        terminal.until(r"What to say\..*text \(string\): ")
        terminal.type("")
        terminal.type("hello")
        assert terminal.end() == 0
        assert '"text": "hello"' in terminal.shown


def test_a_person_answers_the_questions_of_a_server(home: Home) -> None:
    with Terminal(home, ["call", "mcp_handy_ask"]) as terminal:
        terminal.until(r"Who\?.*Answer\? \[Y/n\] ")
        terminal.type("")
        terminal.until(r"city \(string\): ")
        terminal.type("Oslo")
        terminal.until(r"age \(integer\): ")
        terminal.type("old")
        terminal.until("expected: integer")
        terminal.type("44")
        terminal.until(r"colour \(one of red, blue; Enter for none\): ")
        terminal.type("")
        assert terminal.end() == 0
        assert '{"action": "accept", "content": {"city": "Oslo", "age": 44}}' in terminal.shown


def test_a_page_is_shown_and_a_person_says_when_it_is_done(home: Home) -> None:
    with Terminal(home, ["call", "mcp_handy_visit"]) as terminal:
        terminal.until(r"https://example\.com/x.*n declines: ")
        terminal.type("n")
        assert terminal.end() == 0
        assert '{"action": "decline"}' in terminal.shown


def test_the_real_command_prints_the_answer_and_nothing_else(home: Home) -> None:
    ran = home.run("call", "mcp_handy_echo", "text=hello")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, '{"text": "hello"}\n', "")


def test_ctrl_c_cancels_the_call_and_ends_at_once(home: Home) -> None:
    home.notes.write_text("", encoding="utf-8")
    with Terminal(home, ["call", "mcp_handy_wait"]) as terminal:
        while "called wait" not in home.noted():
            assert terminal.process.poll() is None
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.end() == 130
        assert "Traceback" not in terminal.shown
        assert terminal.shown.endswith("\n")
    assert "cancelled" in home.noted()


def test_a_call_without_a_gateway_is_found_in_usage(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.main("call", "mcp_handy_echo", "text=a")
    home.main("call", "mcp_handy_fail")
    used = {it["tool"]: it for it in json.loads(home.main("usage", "--json").stdout)["tools"]}
    assert {name: (it["calls"], it["failed"]) for name, it in used.items()} == {
        "mcp_handy_echo": (1, 0),
        "mcp_handy_fail": (1, 1),
    }
    assert used["mcp_handy_echo"]["mean_seconds"] > 0
    kept = json.loads(home.main("store", "info", "--json").stdout)
    assert kept["calls"] == sum(it["calls_ever"] for it in used.values())


def test_a_timeout_covers_the_start_of_the_server(tmp_path: Path) -> None:
    home, mute = Home(tmp_path), tmp_path / "mute"
    starter = tmp_path / "starter.py"
    starter.write_text(
        "import pathlib, runpy, sys\n"
        f"sys.stdin.read() if pathlib.Path({str(mute)!r}).exists() else None\n"
        f"runpy.run_path({str(SCRIPT)!r}, run_name='__main__')\n",
        encoding="utf-8",
    )
    home.configure({"handy": home.entry(args=[str(starter)], timeouts={"connect": 1000})})
    mute.touch()
    words = ("call", "mcp_handy_echo", "text=a", "--timeout", "0.5")
    # Its tools are not cached, so it is started to ask for them.
    ran = home.main(*words)
    assert ran.returncode == 1
    assert "server 'handy' is down" in ran.stderr
    mute.unlink()
    assert home.main("tools", "--refresh").returncode == 0
    mute.touch()
    ran = home.main(*words)
    assert ran.returncode == 1
    assert "did not finish within 0.5 s" in ran.stderr
    assert "give `--timeout` more" in ran.stderr


def test_names_that_a_tool_does_not_know_are_told_beside_those_it_misses(tmp_path: Path) -> None:
    home = Home(tmp_path)
    (tmp_path / "data" / "pegboard").mkdir(parents=True)
    schema = {"type": "object", "properties": {"text": {}}, "required": ["text"]}
    with open_store(str(tmp_path / "data" / "pegboard" / "pegboard.db")) as store:
        store.save(Tool(name="lenient", input_schema=schema))
    ran = home.main("call", "lenient", "txt=a")
    assert ran.returncode == 2
    assert "`text` is missing" in ran.stderr
    assert "it has no argument `txt`" in ran.stderr


def test_a_name_that_a_tool_does_not_know_is_told_and_the_call_made(home: Home) -> None:
    ran = home.main("call", "mcp_handy_steps", "extra=1", "--args", '{"more": 2}')
    assert (ran.returncode, ran.stdout) == (0, "done\n")
    assert "it has no argument `more`, `extra`." in ran.stderr


def test_nothing_is_told_of_names_that_a_tool_takes_without_listing_them(tmp_path: Path) -> None:
    home = Home(tmp_path)
    (tmp_path / "data" / "pegboard").mkdir(parents=True)
    schema = {"type": "object", "properties": {"a.b": {}}, "additionalProperties": {}}
    with open_store(str(tmp_path / "data" / "pegboard" / "pegboard.db")) as store:
        store.save(Tool(name="open", input_schema=schema))
        store.save(Tool(name="dots", input_schema={"properties": {"a.b": {}}}))
    for words in (["open", "any=1"], ["dots", "a.b=1"]):
        assert "no argument" not in home.main("call", *words).stderr


def test_the_line_of_usage_can_be_read(home: Home) -> None:
    assert "Usage: pegboard call [OPTIONS] TOOL [ARGUMENT]...\n" in home.main("call", "-h").stdout
