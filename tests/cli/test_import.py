"""`pegboard import`."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from pegboard.clients import CLIENTS, Machine
from pegboard.config import load_servers, user_config_file
from tests.cli.own_machine import ENTRY, Run, at_a_terminal, golden, in_process
from tests.config.own_folders import use_own_folders

CURSOR = {"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return use_own_folders(tmp_path, monkeypatch)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return in_process(capsys)


def install(*names: str) -> None:
    for name in names or CLIENTS:
        path = CLIENTS[name].file(Machine.here())
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(golden(name))


def statuses(out: str) -> dict[tuple[str, str], str]:
    return {(it["client"], it["name"]): it["status"] for it in json.loads(out)}


def files_under(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_dry_run_shows_the_plan_and_writes_nothing(run: Run, tmp_path: Path) -> None:
    install()
    before = files_under(tmp_path)
    said = run("import", "--dry-run")
    assert said.code == 0
    assert said.err.endswith("Nothing was written.\n")
    lines = {line.split()[0]: line for line in said.out.splitlines()}
    assert lines["SERVER"].split() == ["SERVER", "FROM", "PLAN", "WHERE", "SECRETS", "IN"]
    assert "env.GITHUB_PERSONAL_ACCESS_TOKEN" in lines["github"]
    assert "new, disabled" in lines["off"]
    assert lines["postgres-context-server"].split()[1:] == ["zed", "unusable"]
    assert "postgres-context-server (zed): It is an extension that only Zed can start" in said.err
    assert files_under(tmp_path) == before


def test_all_clients_are_taken_over_and_a_second_time_nothing(run: Run, tmp_path: Path) -> None:
    install()
    (tmp_path / "home/.cursor/search.env").write_bytes(b"A=b\n")
    assert run("import", "--json").code == 1
    assert not user_config_file().exists()
    said = run("import", "--yes", "--json")
    assert said.code == 0
    found = statuses(said.out)
    assert found["claude-desktop", "files"] == "new"
    assert found["cursor", "files"] == "same"
    assert found["codex", "files"] == "conflict"
    assert "canary" not in user_config_file().read_text("utf-8").lower()
    assert "'tracker' needs the environment variable TRACKER_KEY" in said.err
    assert "https://tracker.example.com/eu/mcp" in user_config_file().read_text("utf-8")
    servers = {it.name: it for it in load_servers(user_config_file(), undefined="keep").servers}
    assert servers["older"].env == {"API_TOKEN": "canary-zed-0005-token"}
    assert not servers["wiki"].enabled
    before = files_under(tmp_path)
    said = run("import", "--yes", "--json")
    assert (said.code, "There is nothing to write." in said.err) == (0, True)
    assert set(statuses(said.out).values()) == {"same", "conflict", "unusable"}
    assert files_under(tmp_path) == before


def test_canaries_are_nowhere_but_in_files_for_the_owner_alone(run: Run, tmp_path: Path) -> None:
    install()
    theirs = {CLIENTS[name].file(Machine.here()) for name in CLIENTS}
    run("import", "--yes")
    run("connect", "--all", "--only")
    for path, content in files_under(tmp_path).items():
        if b"canary" in content.lower() and path not in theirs:
            assert path.stat().st_mode & 0o077 == 0, path
            assert path.parent.name in ("secrets", "clients")


@pytest.mark.parametrize(
    ("choice", "names", "command"),
    [
        ("skip", ["time"], "old"),
        ("rename", ["time", "time-cursor"], "old"),
        ("replace", ["time"], "uvx"),
    ],
)
def test_a_name_that_is_taken_is_dealt_with_as_told(
    choice: str, names: list[str], command: str, run: Run, home: Path, tmp_path: Path
) -> None:
    (home / ".cursor").mkdir()
    (home / ".cursor/mcp.json").write_text(json.dumps(CURSOR), "utf-8")
    run("add", "time", "--config", "own.json", "--", "old")
    said = run("import", "cursor", "--config", "own.json", "--yes", "--on-conflict", choice)
    assert said.code == 0
    servers = load_servers(tmp_path / "own.json").servers
    assert [it.name for it in servers] == names
    assert servers[0].command == command


@pytest.mark.parametrize(
    ("answers", "names", "command"),
    [
        (["s"], ["time"], "old"),
        ([""], ["time"], "old"),
        (["\x04"], ["time"], "old"),
        (["what?", "add"], ["time", "time-cursor"], "old"),
        (["r"], ["time"], "uvx"),
    ],
)
def test_a_person_is_asked_what_becomes_of_a_name_that_is_taken(
    answers: list[str], names: list[str], command: str, run: Run, home: Path, tmp_path: Path
) -> None:
    (home / ".cursor").mkdir()
    (home / ".cursor/mcp.json").write_text(json.dumps(CURSOR), "utf-8")
    run("add", "time", "--config", "own.json", "--", "old", "server")
    asked = [("[s] ", it) for it in answers]
    typed = [*asked, ("Write 1 server", "y")] if command == "uvx" or len(names) > 1 else asked
    said = at_a_terminal("import", "cursor", "--config", "own.json", answers=typed)
    assert said.code == 0
    assert "cursor has: uvx mcp-server-time" in said.out
    assert "your file has: old server" in said.out
    assert ("That was not understood" in said.out) == ("what?" in answers)
    servers = load_servers(tmp_path / "own.json").servers
    assert [it.name for it in servers] == names
    assert servers[0].command == command


def test_the_question_about_a_name_shows_both_servers_and_the_fields_that_differ(
    home: Path,
) -> None:
    one = {"command": "n", "env": {"TOKEN": "canary-one-0001", "SAME": "1"}}
    other = {"command": "n", "env": {"TOKEN": "canary-two-0002", "SAME": "1"}, "cwd": str(home)}
    for name, entry in (("claude-desktop", one), ("cursor", other), ("windsurf", other)):
        path = CLIENTS[name].file(Machine.here())
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"mcpServers": {"numbers": entry}}), "utf-8")
    typed = [("another name? [s] ", "a"), ("Write 2 servers", "y")]
    said = at_a_terminal("import", answers=typed)
    assert said.code == 0
    assert "name is taken: you decide" in said.out
    assert "skipped" not in said.out
    assert "cursor has: n" in said.out
    assert "claude-desktop has: n" in said.out
    assert "They differ in: env.TOKEN, cwd" in said.out
    assert "replace yours" not in said.out
    assert "canary" not in said.out
    assert said.out.count("The name 'numbers' is taken.") == 1
    assert [it.name for it in load_servers(user_config_file()).servers] == [
        "numbers",
        "numbers-cursor",
    ]


def test_a_secret_that_the_client_keeps_was_copied_and_not_moved(run: Run, home: Path) -> None:
    (home / ".cursor").mkdir()
    entry = {"command": "n", "env": {"TOKEN": "canary-one-0001"}}
    (home / ".cursor/mcp.json").write_text(json.dumps({"mcpServers": {"n": entry}}), "utf-8")
    said = run("import", "cursor", "--yes")
    assert "The secret in `env.TOKEN` of 'n' was copied to a file" in said.err
    assert "moved" not in said.err
    assert "canary" in (home / ".cursor/mcp.json").read_text("utf-8")


def test_what_was_skipped_is_listed_at_the_end(home: Path) -> None:
    for name in ("cursor", "windsurf"):
        path = CLIENTS[name].file(Machine.here())
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"mcpServers": {"numbers": {"command": name}}}), "utf-8")
    typed = [
        ("another name? [s] ", "r"),
        ("answer s or a.\r\n  [s]kip it", "s"),
        ("Write 1 server", "y"),
    ]
    said = at_a_terminal("import", answers=typed)
    assert said.code == 0
    *_, end = said.out.partition("Wrote 1 server")
    assert "Skipped, because the name is taken: numbers (windsurf)." in end


def test_a_plan_is_whole_on_a_narrow_terminal(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / ".cursor").mkdir()
    folders = [f"/home/me/work/projects/number-{it}" for it in range(3)]
    entry = {"command": "npx", "args": ["-y", "@scope/server-filesystem", *folders]}
    content = {"mcpServers": {"the-files-of-all-my-projects": entry}}
    (home / ".cursor/mcp.json").write_text(json.dumps(content), "utf-8")
    monkeypatch.setenv("COLUMNS", "60")
    said = at_a_terminal("import", "--dry-run", answers=[]).out
    assert "…" not in said
    assert "too narrow" not in said
    words = ("the-files-of-all-my-projects (cursor): new", *folders)
    assert all(it in said for it in words)


def test_of_two_clients_that_disagree_about_a_name_neither_loses_its_server(
    run: Run, home: Path, tmp_path: Path
) -> None:
    for folder, file in ((".cursor", "mcp.json"), (".codeium/windsurf", "mcp_config.json")):
        (home / folder).mkdir(parents=True)
        entry = {"command": "uvx", "args": [folder]}
        (home / folder / file).write_text(json.dumps({"mcpServers": {"time": entry}}), "utf-8")
    run("add", "time", "--config", "own.json", "--", "old")
    words = ["import", "--config", "own.json", "--yes", "--on-conflict", "replace"]
    said = run(*words)
    assert "name is taken: replaced" in said.out
    assert "name is taken: added as time-windsurf" in said.out
    servers = load_servers(tmp_path / "own.json").servers
    assert {it.name: it.args for it in servers} == {
        "time": (".cursor",),
        "time-windsurf": (".codeium/windsurf",),
    }
    assert "There is nothing to write." in run(*words).err


@pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")
@pytest.mark.parametrize("command", [["import", "--dry-run"], ["doctor", "--config", "own.json"]])
def test_secrets_in_a_file_of_a_client_that_others_can_read_are_told(
    command: list[str], run: Run, tmp_path: Path
) -> None:
    (tmp_path / "own.json").write_text('{"mcpServers": {}}', "utf-8")
    install("claude-desktop")
    path = CLIENTS["claude-desktop"].file(Machine.here())
    path.chmod(0o644)
    assert run(*command).err.count(f"`chmod 600 {path}`") == 1
    path.chmod(0o600)
    assert "chmod 600" not in run(*command).err


def test_files_of_the_project_are_found_and_keep_their_folder(run: Run, tmp_path: Path) -> None:
    (tmp_path / ".vscode").mkdir()
    entry = {"command": "${workspaceFolder}/run", "args": ["$${workspaceFolder}"]}
    (tmp_path / ".vscode/mcp.json").write_text(json.dumps({"servers": {"a": entry}}), "utf-8")
    (tmp_path / ".mcp.json").write_text(
        json.dumps({"mcpServers": {"b": {"command": "./b"}}}), "utf-8"
    )
    assert run("import", "--yes").code == 0
    b, a = load_servers(user_config_file()).servers
    assert (a.command, a.args) == (f"{tmp_path}/run", ("${workspaceFolder}",))
    assert (b.command, b.cwd) == ("./b", str(tmp_path))


def test_a_file_of_any_dialect_can_be_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / "bare.json").write_text(json.dumps(CURSOR["mcpServers"]), "utf-8")
    (tmp_path / "codex.toml").write_bytes(golden("codex"))
    assert run("import", "bare.json", "./codex.toml", "--yes").code == 0
    names = [it.name for it in load_servers(user_config_file(), undefined="keep").servers]
    assert names == ["time", "files", "wiki"]
    assert run("import", "nowhere.json").code == 3
    (tmp_path / "broken.toml").write_bytes(b'a = "canary')
    said = run("import", "broken.toml")
    assert (said.code, "is not TOML" in said.err) == (1, True)


def test_a_broken_file_does_not_keep_the_others_from_being_read(run: Run, home: Path) -> None:
    install("cursor", "codex")
    (home / ".codex/config.toml").write_bytes(b"[[canary")
    said = run("import", "--json", "--dry-run")
    assert said.code == 0
    assert {client for client, _ in statuses(said.out)} == {"cursor"}
    assert "is not TOML" in said.err
    assert run("import", "codex").code == 1


def test_pegboard_itself_is_never_taken_over(run: Run, home: Path) -> None:
    install("claude-code", "codex")
    run("connect", "--all")
    programs = {
        "a": {"command": "C:\\bin\\pegboard.exe", "args": ["serve", "--stdio"]},
        "b": {"command": "uvx", "args": ["pegboard", "serve", "--stdio"]},
        "c": {"command": "python", "args": ["-m", "pegboard.cli.main", "serve"]},
        "pegboard": {"url": "http://127.0.0.1:8765/mcp"},
        "other": {"command": "pegboard-server", "args": ["serve"]},
    }
    (home / ".cursor").mkdir()
    (home / ".cursor/mcp.json").write_text(json.dumps({"mcpServers": programs}), "utf-8")
    found = statuses(run("import", "--json", "--dry-run").out)
    own = {key for key, status in found.items() if status == "pegboard"}
    assert own == {("cursor", it) for it in ("a", "b", "c", "pegboard")} | {
        ("claude-code", "pegboard"),
        ("codex", "pegboard"),
    }
    assert found["cursor", "other"] == "new"


def test_where_no_client_is_the_exit_code_says_so(run: Run) -> None:
    assert run("import").code == 3
    said = run("import", "cursor")
    assert (said.code, "Cursor has no file here" in said.err) == (3, True)
    said = run("import", "curser")
    assert "Did you mean `cursor`?" in said.err


def test_a_person_sees_the_plan_and_answers_what_the_editor_would_ask() -> None:
    install("vscode")
    said = at_a_terminal(
        "import",
        answers=[
            ("Write 2 servers to", "y"),
            ("asks for Region [eu]:", "us"),
            ("asks for Key of the tracker:", "canary-typed-0008"),
        ],
    )
    assert said.code == 0
    assert "canary" not in said.out
    [tracker, _] = load_servers(user_config_file(), strict=True).servers
    assert tracker.url == "https://tracker.example.com/us/mcp"
    assert tracker.headers == {"X-Api-Key": "canary-typed-0008"}
    assert "canary" not in user_config_file().read_text("utf-8")


def test_what_nobody_answered_is_named_and_asked_for_by_the_next_import(run: Run) -> None:
    install("vscode")
    run("import", "--yes")
    own = user_config_file()
    text = own.read_text("utf-8").replace('"url"', '// mine\n      "url"')
    own.write_text(text, "utf-8")
    said = run("import", "--yes")
    assert "needs the environment variable" in said.err
    assert "run `pegboard import` in a terminal" in said.err
    assert "already present, needs a value" in said.out
    assert own.read_text("utf-8") == text
    assert at_a_terminal("import", answers=[("Write 1 server to", "n")]).code == 1
    assert own.read_text("utf-8") == text
    answers = [("Write 1 server to", "y"), ("asks for Key of the tracker:", "canary-typed-0009")]
    typed = at_a_terminal("import", answers=answers)
    assert typed.code == 0
    assert "canary" not in typed.out
    assert "canary" not in own.read_text("utf-8")
    assert "// mine" in own.read_text("utf-8")
    [tracker, _] = load_servers(own, strict=True).servers
    assert tracker.headers == {"X-Api-Key": "canary-typed-0009"}
    assert "environment variable" not in run("import", "--yes").err


def test_a_person_who_says_no_has_nothing_changed(tmp_path: Path) -> None:
    install("cursor")
    before = files_under(tmp_path)
    assert at_a_terminal("import", answers=[("[y/N]", "n")]).code == 1
    assert files_under(tmp_path) == before


def test_it_works_as_a_process() -> None:
    install("cursor")
    done = subprocess.run(
        [*ENTRY, "import", "cursor", "--yes", "--json"],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=True,
    )
    assert [it["name"] for it in json.loads(done.stdout)] == ["files", "search", "docs"]
    assert "canary" not in done.stdout + done.stderr
