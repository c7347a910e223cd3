"""The entry: what is imported, and how commands end."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

import pegboard
from pegboard.cli.entry.command_table import COMMANDS
from pegboard.cli.main import main

ENTRY = [sys.executable, "-m", "pegboard.cli.main"]
# What makes a start slow.
HEAVY = {
    *("typer", "rich", "msgspec", "pydantic", "mcp", "numpy", "anyio", "asyncio", "inspect"),
    *("typing", "enum", "re", "dataclasses", "pathlib", "difflib", "signal", "importlib.metadata"),
}


@pytest.fixture(autouse=True)
def signals_as_they_were() -> Generator[None]:
    """`serve` hears them in its own way, from its first moment on."""
    kept = {it: signal.getsignal(it) for it in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


def run(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*ENTRY, *words],
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, **environ},
        check=False,
    )


def modules_of(*words: str, **environ: str) -> set[str]:
    code = f"import sys; from pegboard.cli.main import main; main({list(words)!r}); "
    code += "sys.stderr.write(' '.join(sys.modules))"
    # Without `site`: what it imports differs from place to place.
    paths = os.pathsep.join(sys.path)
    ran = subprocess.run(
        [sys.executable, "-S", "-c", code],
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": paths, **environ},
        check=True,
    )
    return set(ran.stderr.split())


@pytest.mark.parametrize("words", [["--help"], ["--version"], []])
def test_help_and_version_import_next_to_nothing(words: list[str]) -> None:
    loaded = modules_of(*words)
    assert "pegboard.cli.entry.command_table" in loaded
    assert loaded.isdisjoint(HEAVY)


def test_a_command_imports_no_other_command() -> None:
    loaded = modules_of("keys", "--help")
    others = {f"pegboard.cli.{it.module}" for name, it in COMMANDS.items() if name != "keys"}
    assert "pegboard.cli.commands.keys" in loaded
    assert loaded.isdisjoint({*others, "mcp", "numpy", "uvicorn"})


def test_the_help_of_serve_does_not_wait_for_the_gateway() -> None:
    assert modules_of("serve", "--help").isdisjoint({"mcp", "uvicorn", "pegboard.gateway"})


def test_the_version_is_the_one_that_is_installed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"pegboard {pegboard.__version__}\n"


def test_the_front_page_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    page = capsys.readouterr().out
    for name, command in COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(command.summary)}$", page, re.MULTILINE)
    assert max(map(len, page.splitlines())) <= 90


def test_without_a_command_a_page_that_fits_a_terminal_names_them_all_and_is_no_result(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err[:6]) == ("", "Usage:")
    # A line is left for the prompt.
    assert len(said.err.splitlines()) < 24
    for name in COMMANDS:
        assert re.search(rf"\b{name}\b", said.err)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["sreve"], "Did you mean `pegboard serve`?"),
        (["zzz"], "There is no command 'zzz'. `pegboard --help` lists them."),
        (["--verison"], "There is no option '--verison'."),
        (["--json", "tools"], "`pegboard tools --json …`"),
        (["keys", "lst"], "Did you mean 'list'"),
        (["keys", "create", "--nmae", "x"], "--name"),
        (["serve", "--port", "many"], "--port"),
        (["serve", "--port", "70000"], "65535"),
        (["serve", "--surface", "all"], "'all' is not one of 'search', 'full'"),
        (["keys", "revoke"], "Missing argument"),
    ],
)
def test_misuse_says_what_to_type(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("error: ")
    assert told in said.err
    assert "--help` " in said.err
    assert "Value error" not in said.err


@pytest.mark.parametrize("word", ["-h", "--help"])
def test_a_command_explains_itself(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keys", "create", word]) == 0
    said = capsys.readouterr()
    assert (said.err, "--expires WHEN" in said.out) == ("", True)
    assert main(["help", "keys", "create"]) == 0
    assert capsys.readouterr() == said


@pytest.mark.parametrize("word", ["import", "search", "call", "add", "keys", "store", "config"])
def test_help_has_whole_sentences_and_no_types_of_python(
    word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([word, "--help"]) == 0
    _, _, said = capsys.readouterr().out.partition("\n\n")
    assert not re.search(r"<(str|int|float|list)\b", said)
    assert not re.search(r"\w\.\.\.$", said, re.MULTILINE)


def test_an_interrupted_command_ends_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted() -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("pegboard.cli.commands.config.schema_text", interrupted)
    assert main(["config", "schema"]) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_a_mistake_of_ours_is_shown_as_one_and_whole_when_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> str:
        raise LookupError("not foreseen")

    monkeypatch.setattr("pegboard.cli.commands.config.schema_text", broken)
    assert main(["config", "schema"]) == 1
    told = capsys.readouterr().err
    assert told.startswith("error: LookupError: not foreseen\n")
    assert "--debug" in told
    assert "Traceback" not in told
    for words in (["--debug", "config", "schema"], ["config", "schema", "--debug"]):
        assert main(words) == 1
        assert "Traceback" in capsys.readouterr().err
    monkeypatch.setenv("PEGBOARD_DEBUG", "1")
    assert main(["config", "schema"]) == 1
    assert "Traceback" in capsys.readouterr().err
    assert main(["show", "nothing", "--config", "none.json"]) == 3


def test_what_follows_two_dashes_is_not_ours() -> None:
    assert "--debug" in run("keys", "revoke", "--store", "none.db", "--", "--debug").stderr


def test_letters_that_the_pipe_does_not_know_are_spelled(folder: Path) -> None:
    words = ["eval", "search", "--data", str(folder), "--method", "regex"]
    name = folder.with_name("付款")
    folder.rename(name)
    words[3] = str(name)
    ran = run(*words, PYTHONIOENCODING="ascii")
    assert (ran.returncode, "\\u4ed8" in ran.stdout) == (0, True)


def on_terminal(*words: str, columns: int = 60, **environ: str) -> tuple[int, str]:
    """Run a command at a terminal, and return the exit code and what the terminal was sent."""
    ours, theirs = pty.openpty()
    settings = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(columns), **environ}
    settings = {name: it for name, it in settings.items() if name != "NO_COLOR" or it}
    with subprocess.Popen(
        [*ENTRY, *words], stdin=theirs, stdout=theirs, stderr=theirs, env=settings
    ) as process:
        os.close(theirs)
        sent = b""
        while select.select([ours], [], [], 30)[0]:
            try:
                part = os.read(ours, 65536)
            except OSError:
                # On Linux, that is how the other side says that it is gone.
                break
            if not part:
                break
            sent += part
    os.close(ours)
    return process.returncode, sent.decode()


@pytest.mark.skipif(os.name == "nt", reason="there are no pseudo-terminals")
def test_on_a_terminal_an_error_is_red_and_between_the_edges(tmp_path: Path) -> None:
    path = tmp_path / ("a-long-name-" * 6) / "keys.db"
    code, sent = on_terminal("keys", "rotate", "x", "--store", str(path), NO_COLOR="")
    assert code == 3
    assert re.search(r"\x1b\[1;31merror:", sent)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", sent)
    assert max(map(len, plain.splitlines())) <= 60


@pytest.mark.skipif(os.name == "nt", reason="there are no pseudo-terminals")
def test_the_front_page_has_headings_where_a_person_looks() -> None:
    code, sent = on_terminal("--help")
    assert (code, "\x1b[1mServers:\x1b[0m" in sent) == (0, True)
    assert "\x1b" not in on_terminal("--help", TERM="dumb")[1]


@pytest.mark.skipif(os.name == "nt", reason="there are no pseudo-terminals")
def test_whoever_wants_no_colours_gets_none() -> None:
    code, sent = on_terminal("keyz", NO_COLOR="1")
    assert code == 2
    assert "error:" in sent
    # Bold is no colour.
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", sent)
