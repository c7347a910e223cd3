"""`pegboard tools`, `show`, `categories`: what is there, started only where it is not cached."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pegboard import Tool, open_store
from tests.cli.handy import SCRIPT, Home

CANARY = "canary-4f8a-secret"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def names(home: Home, *words: str) -> list[str]:
    ran = home.main("tools", "--json", *words)
    return [it["name"] for it in json.loads(ran.stdout)]


def store_of(home: Home) -> str:
    return str(home.folder / "data" / "pegboard" / "pegboard.db")


def test_a_server_is_started_once_and_remembered_from_then_on(home: Home) -> None:
    first = home.main("tools")
    assert (first.returncode, first.stderr) == (0, "")
    assert "mcp_handy_echo" in first.stdout
    assert home.main("tools").stdout == first.stdout
    assert home.main("categories").stdout.split() == ["CATEGORY", "TOOLS", "handy", "9"]
    assert home.starts() == 1
    home.main("tools", "--refresh")
    assert home.starts() == 2


def test_a_server_that_is_configured_anew_is_started_again(home: Home) -> None:
    home.main("tools")
    home.configure({"handy": home.entry(args=["-S", *home.entry()["args"][1:], "more"])})
    home.main("tools")
    assert home.starts() == 2
    # A change that does not affect the tools starts no server.
    home.configure({"handy": home.entry(args=["-S", *home.entry()["args"][1:], "more"], prefix="")})
    assert "echo" in names(home)
    assert home.starts() == 2


def test_a_server_that_fails_is_told_and_hides_no_other(home: Home) -> None:
    broken = {"command": "pegboard-has-no-such-command", "env": {"KEY": CANARY}}
    home.configure({"broken": broken, "handy": home.entry()})
    ran = home.main("tools")
    assert ran.returncode == 0
    assert "mcp_handy_echo" in ran.stdout
    assert "'broken'" in ran.stderr
    assert CANARY not in ran.stdout + ran.stderr


def test_a_server_that_fails_is_told_where_it_matters(home: Home) -> None:
    broken = {"command": "pegboard-has-no-such-command"}
    home.configure({"broken": broken, "handy": home.entry(), "other": broken})
    told = home.main("tools").stderr
    assert [told.count(it) for it in ("'broken' cannot", "'other' cannot")] == [1, 1]
    # What to do about them is told once.
    assert told.count("`pegboard doctor NAME` says why") == 1
    for words in (["show", "mcp_handy_echo"], ["call", "mcp_handy_echo", "text=a"]):
        ran = home.main(*words)
        assert (ran.returncode, ran.stderr) == (0, "")
        ran = home.main(words[0], "mcp_broken_echo")
        assert ran.returncode == 1
        assert "because server 'broken' is down: " in ran.stderr
        assert ran.stderr.count("pegboard doctor") == 1
        assert home.main(words[0], "echoes").stderr.count("pegboard doctor") == 1
    assert home.main("tools", "--server", "handy").stderr == ""
    ran = home.main("tools", "--server", "broken")
    assert "`pegboard doctor broken`" in ran.stderr
    assert "other" not in ran.stderr
    for words in (["search", "echo"], ["categories"], ["cost"]):
        assert home.main(*words).stderr.count("cannot be started") == 2


def test_a_tool_whose_own_server_cannot_be_started_anew_is_shown_with_that(home: Home) -> None:
    script = home.folder / "server.py"
    script.write_text(
        f"import runpy; runpy.run_path({str(SCRIPT)!r}, run_name='__main__')", encoding="utf-8"
    )
    home.configure({"handy": home.entry(args=[str(script)])})
    assert home.main("tools").returncode == 0
    script.write_text("raise SystemExit('broken')", encoding="utf-8")
    ran = home.main("show", "mcp_handy_echo", "--refresh")
    assert ran.returncode == 0
    assert "`pegboard doctor handy`" in ran.stderr


def test_a_problem_of_the_configuration_is_told_with_its_place(home: Home) -> None:
    home.configure({"handy": home.entry(), "odd": {"command": 1}})
    [problem] = home.main("config", "check").stdout.splitlines()
    assert ":1:" in problem
    assert home.main("tools").stderr.splitlines() == [problem]


def test_a_server_that_failed_is_left_alone_for_a_while(home: Home) -> None:
    script = home.folder / "broken.py"
    script.write_text(
        f"import sys; open({str(home.notes)!r}, 'a').write('tried\\n'); sys.exit('no way')",
        encoding="utf-8",
    )
    broken = {"command": sys.executable, "args": [str(script)], "protocol": "legacy"}
    home.configure({"broken": broken, "handy": home.entry()})
    first = home.main("tools")
    tries = home.noted().count("tried")
    again = home.main("tools")
    assert (again.stdout, again.stderr) == (first.stdout, first.stderr)
    assert again.stderr.count("'broken'") == 1
    assert "`pegboard doctor broken` says why; `pegboard disable broken`" in again.stderr
    assert home.noted().count("tried") == tries
    [seen, _] = json.loads(home.main("status", "--json").stdout)["servers"]
    assert "'broken'" in seen["last_error"]
    # Asked to, or configured anew, it is tried again.
    home.main("tools", "--refresh")
    assert home.noted().count("tried") > tries
    tries = home.noted().count("tried")
    home.configure({"broken": {**broken, "timeouts": {"connect": 20}}, "handy": home.entry()})
    home.main("tools")
    assert home.noted().count("tried") > tries


def test_a_server_that_the_doctor_finds_well_is_tried_again(home: Home) -> None:
    script = home.folder / "later.py"
    script.write_text("raise SystemExit('not yet')", encoding="utf-8")
    home.configure({"later": home.entry(args=[str(script)])})
    assert home.main("tools").returncode == 3
    script.write_text(
        f"import runpy; runpy.run_path({str(SCRIPT)!r}, run_name='__main__')", encoding="utf-8"
    )
    assert home.main("tools").returncode == 3
    assert home.main("doctor").returncode == 0
    assert home.main("tools").returncode == 0


def test_a_call_tries_its_server_again_although_that_failed_lately(home: Home) -> None:
    script = home.folder / "later.py"
    script.write_text("raise SystemExit('not yet')", encoding="utf-8")
    home.configure({"later": home.entry(args=[str(script)])})
    failed = home.main("call", "mcp_later_echo", "text=a")
    assert failed.returncode == 1
    assert "not yet" in failed.stderr
    script.write_text(
        f"import runpy; runpy.run_path({str(SCRIPT)!r}, run_name='__main__')", encoding="utf-8"
    )
    assert "`--refresh` tries again" in home.main("tools").stderr
    assert home.main("call", "mcp_later_echo", "text=a").returncode == 0
    assert home.main("tools").stderr == ""


def test_a_hint_reads_the_file_that_the_command_has_read(home: Home) -> None:
    file = home.folder / "an other.json"
    file.write_text('{"mcpServers": {"x": {"command": "pegboard-has-no-such-command"}}}', "utf-8")
    told = home.main("tools", "--config", str(file)).stderr
    assert f"`pegboard doctor x --config '{file}'` says why" in told
    assert f"`pegboard disable x --config '{file}'` leaves it out" in told


def test_tools_are_chosen_by_server_category_and_tag(home: Home) -> None:
    home.configure(
        {
            "handy": home.entry(allow=["echo", "draw"]),
            "twin": home.entry(allow=["echo"], category="doubles", tags=["own"]),
            "off": home.entry(enabled=False),
        }
    )
    assert names(home) == ["mcp_handy_draw", "mcp_handy_echo", "mcp_twin_echo"]
    assert names(home, "--server", "handy", "--server", "off") == names(home)[:2]
    assert names(home, "--category", "doubles") == names(home, "--tag", "own") == names(home)[2:]
    none = home.main("tools", "--tag", "nothing")
    assert (none.returncode, none.stdout) == (3, "")
    assert none.stderr == "No tool matches.\n"
    for wrong, right in (
        (["--server", "handi"], "`--server handy`"),
        (["--category", "double"], "`--category doubles`"),
        (["--tag", "ownn"], "`--tag own`"),
    ):
        assert home.main("tools", *wrong).stderr == (f"No tool matches. Did you mean {right}?\n")
    assert home.main("tools", "--server", "off").stderr == "No tool matches.\n"


def test_definitions_that_are_registered_are_there_and_cannot_be_called(home: Home) -> None:
    (home.folder / "data" / "pegboard").mkdir(parents=True)
    with open_store(store_of(home)) as store:
        store.save(Tool(name="elsewhere", description="Runs elsewhere."))
    assert "elsewhere" in names(home)
    assert "a registered definition" in home.main("show", "elsewhere").stdout
    ran = home.main("call", "elsewhere")
    assert ran.returncode == 1
    assert "as a definition only" in ran.stderr


def test_without_a_configuration_it_is_said_what_to_do(home: Home) -> None:
    (home.folder / "mcp.json").unlink()
    ran = home.main("tools")
    assert ran.returncode == 3
    assert "pegboard import" in ran.stderr
    assert "pegboard serve --demo" in ran.stderr


def test_a_store_that_is_none_is_misuse(home: Home) -> None:
    ran = home.main("tools", "--store", "what.ever")
    assert ran.returncode == 2
    assert "what kind of store" in ran.stderr


def test_show_says_everything_about_a_tool(home: Home) -> None:
    ran = home.main("show", "mcp_handy_echo")
    assert ran.stdout.startswith("mcp_handy_echo(text: string, number?: integer")
    for words in ("Does echo. More.", "What to say.", "required", "tokens", "Input schema"):
        assert words in ran.stdout
    shown = json.loads(home.main("show", "mcp_handy_echo", "--json").stdout)
    assert shown["definition"]["inputSchema"]["required"] == ["text"]
    assert shown["tokens"] > 100


def test_show_takes_the_name_that_the_server_gives_a_tool_but_call_does_not(home: Home) -> None:
    assert home.main("show", "echo").stdout == home.main("show", "mcp_handy_echo").stdout
    assert home.main("call", "echo", "text=a").returncode == 3


@pytest.mark.parametrize(
    ("dialect", "place"),
    [
        ("openai", ("function", "name")),
        ("anthropic", ("name",)),
        ("gemini", ("name",)),
        ("mcp", ("name",)),
    ],
)
def test_show_writes_the_dialect_of_each_provider(
    home: Home, dialect: str, place: tuple[str, ...]
) -> None:
    written = json.loads(home.main("show", "mcp_handy_echo", "--dialect", dialect).stdout)
    for key in place:
        written = written[key]
    assert written == "mcp_handy_echo"


def test_an_unknown_tool_is_not_found_and_near_names_are_told(home: Home) -> None:
    for wrong in ("mcp_handy_ech", "mcp_handy_ecoh"):
        ran = home.main("show", wrong)
        assert (ran.returncode, ran.stdout) == (3, "")
        assert "Did you mean 'mcp_handy_echo'" in ran.stderr
    assert "`pegboard tools`" in home.main("show", "zzzzqqqq").stderr


@pytest.mark.parametrize(
    "words", [["tools"], ["categories"], ["show", "mcp_handy_echo"], ["search", "take steps"]]
)
def test_what_is_remembered_needs_no_sdk(home: Home, words: list[str]) -> None:
    home.main("tools")
    code = f"import sys; from pegboard.cli.main import main; assert main({words!r}) == 0; "
    code += "sys.stderr.write(' '.join(sys.modules))"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        encoding="utf-8",
        cwd=home.folder,
        env={**home.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=True,
    )
    loaded = {it.partition(".")[0] for it in ran.stderr.split()}
    assert loaded.isdisjoint({"mcp", "mcp_types", "httpx2", "starlette", "anyio", "pydantic"})
    assert home.starts() == 1
