"""`pegboard connect` and `pegboard disconnect`."""

import json
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import anyio
import pytest
import typer
from mcp import Client, StdioServerParameters

from pegboard.cli.commands.connect import connect_clients
from pegboard.cli.demo import demo_config
from pegboard.clients import CLIENTS, Machine
from pegboard.config import parse_jsonc
from pegboard.errors.extras import install_tool
from tests.cli.own_machine import ENTRY, Run, at_a_terminal, golden, in_process
from tests.config.own_folders import use_own_folders
from tests.journeys.process import serving


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return use_own_folders(tmp_path, monkeypatch)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return in_process(capsys)


def installed(name: str) -> Path:
    path = CLIENTS[name].file(Machine.here())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(golden(name))
    return path


def test_the_entry_that_is_written_starts_pegboard_from_anywhere(run: Run, tmp_path: Path) -> None:
    run("add", "time", "--", "uvx", "mcp-server-time")
    path = installed("vscode")
    said = run("connect", "vscode")
    assert said.code == 0
    assert said.out == f"VS Code: Pegboard was added to {path}.\n"
    entry = parse_jsonc(path.read_bytes()).root.value["servers"]["pegboard"]
    assert entry["type"] == "stdio"
    assert Path(entry["command"]).is_absolute()
    config = tmp_path / "home/.config/pegboard/mcp.json"
    if sys.platform == "linux":
        assert entry["args"][-4:] == ["serve", "--stdio", "--config", str(config)]
    said = run("disconnect", "vscode")
    assert (said.code, said.out) == (0, f"VS Code: {path} is as it was.\n")
    assert path.read_bytes() == golden("vscode")


def test_on_windows_no_entry_is_written_that_cannot_start(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = installed("cursor")
    monkeypatch.setattr("sys.platform", "win32")
    with pytest.raises(typer.Exit) as ended:
        connect_clients(["cursor"])
    assert ended.value.exit_code == 1
    told = capsys.readouterr().err
    assert "on Windows use WSL" in told
    assert "--url" in told
    assert path.read_bytes() == golden("cursor")


def test_a_pegboard_in_a_cache_is_told_how_it_is_installed_for_good(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "archive-v0" / "pegboard"
    program.parent.mkdir()
    program.touch()
    monkeypatch.setattr("sys.executable", str(program.with_name("python")))
    said = run("connect", "cursor")
    assert f"`{install_tool()}`" in said.err


async def test_a_client_that_reads_the_entry_finds_the_tools(run: Run, tmp_path: Path) -> None:
    (tmp_path / "demo.json").write_text(json.dumps(demo_config()), "utf-8")
    run("connect", "cursor", "--config", "demo.json")
    path = CLIENTS["cursor"].file(Machine.here())
    entry = json.loads(path.read_bytes())["mcpServers"]["pegboard"]
    gateway = StdioServerParameters(command=entry["command"], args=entry["args"], cwd="/")
    with anyio.fail_after(50):
        async with Client(gateway) as client:
            found = ""
            # Servers are there one after the other.
            while "to_roman" not in found:
                answer = await client.call_tool("search_tools", {"query": "roman numerals"})
                found = str(answer.structured_content)


def test_the_servers_that_pegboard_serves_are_taken_out_and_come_back(run: Run) -> None:
    path = installed("claude-desktop")
    run("import", "claude-desktop", "--yes")
    said = run("connect", "claude-desktop")
    assert "still has 2 servers" in said.err
    said = run("connect", "claude-desktop", "--only")
    assert "removed: files, github" in said.out
    content = json.loads(path.read_bytes())
    assert list(content["mcpServers"]) == ["pegboard"]
    assert content["globalShortcut"] == "Alt+Space"
    assert b"canary" not in path.read_bytes().lower()
    assert run("disconnect", "claude-desktop").code == 0
    assert path.read_bytes() == golden("claude-desktop")


@pytest.mark.parametrize("is_edited", [False, True])
def test_the_servers_of_a_project_of_claude_code_are_taken_out_and_come_back(
    is_edited: bool, run: Run, tmp_path: Path
) -> None:
    numbers, other = {"command": "n", "args": ["1"]}, {"command": "never-imported"}
    project, gone = str(tmp_path), str(tmp_path / "gone")
    projects = {
        project: {"mcpServers": {"numbers": numbers}, "history": []},
        gone: {"mcpServers": {"old": numbers}},
    }
    content = {"mcpServers": {"time": other}, "projects": projects, "starts": 1}
    path = installed("claude-code")
    path.write_text(json.dumps(content, indent=1), "utf-8")
    before = path.read_bytes()
    run("import", "claude-code", "--yes")
    said = run("connect", "claude-code", "--only")
    assert f"removed: time, numbers (project {project}).\n" in said.out
    left = json.loads(path.read_bytes())
    assert list(left["mcpServers"]) == ["pegboard"]
    assert left["projects"][project] == {"mcpServers": {}, "history": []}
    assert left["projects"][gone] == projects[gone]
    said = run("connect", "claude-code")
    assert "still has" not in said.err
    if is_edited:
        path.write_bytes(path.read_bytes().replace(b'"starts": 1', b'"starts": 2'))
    assert run("disconnect", "claude-code").code == 0
    if is_edited:
        assert json.loads(path.read_bytes()) == {**content, "starts": 2}
    else:
        assert path.read_bytes() == before


def test_taking_out_once_more_takes_out_the_same(run: Run) -> None:
    path = installed("claude-desktop")
    run("import", "claude-desktop", "--yes")
    for _ in range(2):
        assert "removed: files, github" in run("connect", "claude-desktop", "--only").out
        assert list(json.loads(path.read_bytes())["mcpServers"]) == ["pegboard"]
    run("disconnect", "claude-desktop")
    assert path.read_bytes() == golden("claude-desktop")


def test_what_was_taken_out_stays_out_when_connected_once_more(run: Run) -> None:
    path = installed("claude-desktop")
    run("import", "claude-desktop", "--yes")
    run("connect", "claude-desktop", "--only")
    said = run("connect", "claude-desktop")
    assert "removed: files, github" in said.out
    assert "still has" not in said.err
    assert list(json.loads(path.read_bytes())["mcpServers"]) == ["pegboard"]
    said = at_a_terminal("connect", "claude-desktop", answers=[])
    assert (said.code, "Remove them there" in said.out) == (0, False)
    assert b"canary" not in path.read_bytes().lower()
    run("disconnect", "claude-desktop")
    assert path.read_bytes() == golden("claude-desktop")


def test_what_pegboard_does_not_serve_any_more_is_put_back_and_named(run: Run) -> None:
    path = installed("claude-desktop")
    run("import", "claude-desktop", "--yes")
    run("connect", "claude-desktop", "--only")
    assert run("remove", "github").code == 0
    said = run("connect", "claude-desktop")
    assert "removed: files.\n" in said.out
    assert "restored, because Pegboard may not serve them: github.\n" in said.out
    assert list(json.loads(path.read_bytes())["mcpServers"]) == ["github", "pegboard"]


def test_a_server_that_somebody_wrote_there_again_is_asked_about_again(run: Run) -> None:
    path = installed("claude-desktop")
    run("import", "claude-desktop", "--yes")
    run("connect", "claude-desktop", "--only")
    content = json.loads(path.read_bytes())
    content["mcpServers"]["files"] = json.loads(golden("claude-desktop"))["mcpServers"]["files"]
    path.write_text(json.dumps(content), "utf-8")
    said = run("connect", "claude-desktop")
    assert "removed: github.\n" in said.out
    assert "still has 1 server that" in said.err


def test_of_a_file_that_is_gone_nothing_is_said_to_be_put_back(run: Run) -> None:
    path = installed("claude-desktop")
    run("import", "claude-desktop", "--yes")
    run("connect", "claude-desktop", "--only")
    path.unlink()
    assert "restored" not in run("connect", "claude-desktop").out
    assert list(json.loads(path.read_bytes())["mcpServers"]) == ["pegboard"]


@pytest.mark.parametrize("edited", ["ours", "theirs"])
def test_only_knows_an_imported_server_whose_variables_or_folder_were_edited(
    edited: str, run: Run, tmp_path: Path
) -> None:
    path = installed("cursor")
    theirs = {"a": {"command": "x", "args": ["1"]}, "b": {"command": "y", "env": {"LEVEL": "1"}}}
    path.write_text(json.dumps({"mcpServers": theirs}), "utf-8")
    run("import", "cursor", "--yes", "--config", "own.json")
    place = tmp_path / "own.json" if edited == "ours" else path
    content = json.loads(place.read_text("utf-8"))
    content["mcpServers"]["a"]["cwd"] = str(tmp_path)
    content["mcpServers"]["b"]["env"] = {"LEVEL": "2"}
    place.write_text(json.dumps(content), "utf-8")
    said = run("import", "cursor", "--dry-run", "--config", "own.json")
    assert said.out.count("already present, edited since") == 2
    assert (
        "There is nothing to write" in run("import", "cursor", "--yes", "--config", "own.json").err
    )
    said = run("connect", "cursor", "--only", "--config", "own.json")
    assert "removed: a, b." in said.out


def test_another_account_of_the_same_program_is_not_the_server_that_was_imported(
    run: Run, tmp_path: Path
) -> None:
    for name, level in (("cursor", "1"), ("windsurf", "2")):
        entry = {"command": "y", "env": {"LEVEL": level}}
        installed(name).write_text(json.dumps({"mcpServers": {"b": entry}}), "utf-8")
    run("import", "cursor", "--yes", "--config", "own.json")
    said = run("connect", "windsurf", "--only", "--config", "own.json")
    assert "nothing was removed" in said.err
    assert "name is taken: skipped" in run("import", "--dry-run", "--config", "own.json").out


def test_only_leaves_what_pegboard_cannot_serve(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("PEGBOARD_NONESUCH", raising=False)
    entries: dict[str, dict[str, Any]] = {
        "notes": {"command": "notes-server", "args": []},
        "unset": {"command": "unset-server", "args": ["${PEGBOARD_NONESUCH}"]},
        "off": {"command": "off-server", "args": []},
        "odd": {"command": 5},
        "own": {"command": "never-imported"},
    }
    path = installed("cursor")
    path.write_text(json.dumps({"mcpServers": entries}), "utf-8")
    ours = {it: entries[it] for it in ("notes", "unset")}
    ours["off"] = {**entries["off"], "disabled": True}
    (tmp_path / "own.json").write_text(json.dumps({"mcpServers": ours}), "utf-8")
    said = run("connect", "cursor", "--only", "--config", "own.json")
    assert "removed: notes.\n" in said.out
    assert said.err.count("own.json has errors in unset; see `pegboard doctor`.") == 1
    assert "PEGBOARD_NONESUCH" not in said.err
    assert (
        "Cursor keeps 4 servers of its own (unset: unusable in Pegboard's file, "
        "off: disabled in Pegboard, odd: unusable, own: not imported).\n"
    ) in said.err
    left = ["unset", "off", "odd", "own", "pegboard"]
    assert list(json.loads(path.read_bytes())["mcpServers"]) == left
    monkeypatch.setenv("PEGBOARD_NONESUCH", "is set")
    said = run("connect", "cursor", "--only", "--config", "own.json")
    assert "removed: notes, unset.\n" in said.out


def test_errors_of_other_servers_are_told_once_and_only_where_they_matter(
    run: Run, tmp_path: Path
) -> None:
    servers = {"bad": {"command": 5}, "worse": {"command": "x", "args": ["${PEGBOARD_NONESUCH}"]}}
    (tmp_path / "own.json").write_text(json.dumps({"mcpServers": servers}), "utf-8")
    words = ["connect", "cursor", "windsurf", "--yes", "--config", "own.json"]
    said = run(*words)
    assert (said.code, "pegboard doctor" in said.err, "bad" in said.err) == (0, False, False)
    said = run(*words, "--only")
    [line] = [it for it in said.err.splitlines() if "pegboard doctor" in it]
    assert line.endswith("own.json has errors in bad, worse; see `pegboard doctor`.")


@pytest.mark.parametrize(("answer", "names"), [("y", ["pegboard"]), ("n", ["files", "github"])])
def test_a_person_is_asked_what_becomes_of_them(answer: str, names: list[str], run: Run) -> None:
    path = installed("claude-desktop")
    run("import", "claude-desktop", "--yes")
    said = at_a_terminal("connect", "claude-desktop", answers=[("Remove them there", answer)])
    assert said.code == 0
    assert list(json.loads(path.read_bytes())["mcpServers"])[: len(names)] == names


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 1)])
def test_a_server_that_only_has_our_name_is_replaced_if_a_person_agrees(
    answer: str, code: int, run: Run
) -> None:
    path = installed("cursor")
    own = b'{"mcpServers": {"pegboard": {"command": "my-own-shop-inventory"}}}'
    path.write_bytes(own)
    said = run("disconnect", "cursor")
    assert (said.code, path.read_bytes()) == (3, own)
    said = run("connect", "cursor")
    assert (said.code, path.read_bytes()) == (1, own)
    assert "that is not Pegboard" in said.err
    said = at_a_terminal("connect", "cursor", answers=[("Replace it", answer)])
    assert said.code == code
    assert (path.read_bytes() == own) == (answer == "n")
    assert run("connect", "cursor", "--yes").code == 0
    run("disconnect", "cursor")
    assert path.read_bytes() == own


def test_of_a_file_that_is_gone_the_backup_is_named(run: Run) -> None:
    path = installed("cursor")
    run("connect", "cursor")
    path.unlink()
    said = run("disconnect", "cursor")
    assert "no longer exists" in said.out
    [backup] = [line.split(": ")[1] for line in said.err.splitlines() if ".backup" in line]
    assert Path(backup).read_bytes() == golden("cursor")


def test_all_clients_that_are_here_are_connected_and_disconnected(run: Run) -> None:
    paths = {name: installed(name) for name in ("cursor", "zed", "codex", "gemini")}
    key = ("--header", "Authorization: Bearer pb_1")
    said = run("connect", "--all", "--url", "http://127.0.0.1:9/mcp", *key)
    assert said.code == 0
    assert said.out.count("Pegboard was added to") == 4
    assert "pb_1" not in said.out + said.err
    for path in paths.values():
        written = path.read_bytes()
        assert b"127.0.0.1:9" in written
        assert b"Bearer pb_1" in written
    said = run("disconnect", "--all")
    assert (said.code, said.out.count("is as it was")) == (0, 4)
    assert {name: path.read_bytes() for name, path in paths.items()} == {
        name: golden(name) for name in paths
    }
    said = run("disconnect", "--all")
    assert (said.code, said.err) == (3, "No client's file contains Pegboard.\n")


def test_a_file_that_was_changed_meanwhile_keeps_the_change(run: Run) -> None:
    path = installed("zed")
    run("connect", "zed")
    path.write_bytes(path.read_bytes().replace(b'"vim_mode": true', b'"vim_mode": false'))
    said = run("disconnect", "zed")
    assert (said.code, "other changes there stay" in said.out) == (0, True)
    assert path.read_bytes() == golden("zed").replace(b'"vim_mode": true', b'"vim_mode": false')


def test_a_client_that_is_not_here_gets_a_file_and_loses_it_again(run: Run, home: Path) -> None:
    said = run("connect", "windsurf")
    assert "does not seem to be installed" in said.err
    path = CLIENTS["windsurf"].file(Machine.here())
    assert path.is_file()
    run("connect", "windsurf")
    assert "did not exist before" in run("disconnect", "windsurf").out
    assert not path.parent.parent.exists()
    assert path.is_relative_to(home)


def test_a_folder_that_connect_made_stays_if_somebody_uses_it(run: Run) -> None:
    run("connect", "windsurf")
    path = CLIENTS["windsurf"].file(Machine.here())
    (path.parent / "theirs.json").write_text("{}", "utf-8")
    run("disconnect", "windsurf")
    assert [it.name for it in path.parent.iterdir()] == ["theirs.json"]


def test_that_nothing_was_taken_out_is_said(run: Run) -> None:
    path = installed("cursor")
    path.write_text('{"mcpServers": {"theirs": {"command": "x"}}}', "utf-8")
    said = run("connect", "cursor", "--only")
    assert said.code == 0
    assert "nothing was removed; Pegboard serves none of its servers" in said.err


def test_very_many_servers_are_taken_over_taken_out_and_put_back(run: Run) -> None:
    path = installed("cursor")
    servers = {f"s{it}": {"command": "x", "args": [str(it)]} for it in range(1500)}
    path.write_text(json.dumps({"mcpServers": servers}, indent=2), "utf-8")
    before = path.read_bytes()
    assert run("import", "cursor", "--yes").code == 0
    assert run("connect", "cursor", "--only").code == 0
    left = parse_jsonc(path.read_bytes()).root.value
    assert list(left["mcpServers"]) == ["pegboard"]
    changed = path.read_text("utf-8").replace("{", '{\n  "theirs": 1,', 1)
    path.write_text(changed, "utf-8")
    assert run("disconnect", "cursor").code == 0
    back = parse_jsonc(path.read_bytes()).root.value
    assert back == {"theirs": 1, **json.loads(before)}


@pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")
def test_a_key_in_a_file_that_others_can_read_is_told_with_the_remedy(run: Run) -> None:
    words = ("--url", "http://127.0.0.1:9/mcp", "--header", "Authorization=Bearer canary-1")
    path = installed("cursor")
    path.chmod(0o644)
    assert f"`chmod 600 {path}`" in run("connect", "cursor", *words).err
    assert path.stat().st_mode & 0o777 == 0o644
    path.chmod(0o600)
    assert "chmod" not in run("connect", "cursor", *words).err
    assert "chmod" not in run("connect", "windsurf", *words).err
    assert CLIENTS["windsurf"].file(Machine.here()).stat().st_mode & 0o777 == 0o600


def test_what_cannot_be_forgotten_is_named_and_the_file_is_as_it_was(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = installed("cursor")
    run("connect", "cursor")
    remove = Path.unlink

    def refused(self: Path, missing_ok: bool = False) -> None:
        if "clients" in self.parts:
            raise PermissionError(13, "Permission denied")
        remove(self, missing_ok=missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refused)
        said = run("disconnect", "cursor")
        assert path.read_bytes() == golden("cursor")
        assert said.code == 0
        assert said.err.count("could not be removed") == 2
        assert "Traceback" not in said.err
        assert run("disconnect", "cursor").code == 3
    run("connect", "cursor")
    assert run("disconnect", "cursor").code == 0
    assert path.read_bytes() == golden("cursor")


def test_a_file_that_cannot_be_removed_stays_connected(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("connect", "windsurf")
    path = CLIENTS["windsurf"].file(Machine.here())

    def refused(self: Path, missing_ok: bool = False) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refused)
        said = run("disconnect", "windsurf")
    assert said.code == 1
    assert "The file cannot be removed: Permission denied." in said.err
    assert "pegboard" in path.read_text("utf-8")
    assert run("disconnect", "windsurf").code == 0
    assert not path.exists()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["connect"], 2),
        (["connect", "cursor", "--all"], 2),
        (["connect", "cursor", "--stdio", "--url", "http://x"], 2),
        (["connect", "cursor", "--header", "Authorization=Bearer pb_1"], 2),
        (["connect", "cursor", "--url", "http://x", "--header", "pb_1"], 2),
        (["connect", "cursor", "--url", "http://x", "--header", "A B=c"], 2),
        (["connect", "cursor", "--url", "http://x", "--header", "A=b\r\nX: y"], 2),
        (["connect", "cursor", "--url", ""], 2),
        (["connect", "cursor", "--url", "ftp://x"], 2),
        (["connect", "cursor", "--url", "http://a\nb"], 2),
        (["connect", "cursor", "--url", "http://127.0.0.1:9/mcp", "--only"], 2),
        (["connect", "--all"], 3),
        (["connect", "curser"], 2),
        (["connect", "claude-desktop", "--url", "http://127.0.0.1:8765/mcp"], 1),
        (["connect", "cursor", "--config", "nowhere.json"], 3),
        (["disconnect", "curser"], 2),
        (["disconnect", "cursor"], 3),
    ],
)
def test_what_cannot_be_done_changes_nothing(
    words: list[str], code: int, run: Run, home: Path
) -> None:
    said = run(*words)
    assert said.code == code
    assert said.err
    assert list(home.iterdir()) == []


def test_a_client_is_not_given_a_pegboard_that_would_serve_the_same_file(
    run: Run, tmp_path: Path
) -> None:
    path, other = installed("cursor"), installed("gemini")
    link = tmp_path / "servers.json"
    link.symlink_to(path)
    said = run("connect", "gemini", "cursor", "--yes", "--config", str(link))
    assert said.code == 2
    assert "`pegboard import`" in said.err
    assert path.read_bytes() == golden("cursor")
    assert other.read_bytes() == golden("gemini")
    address = ("--url", "http://127.0.0.1:9/mcp")
    assert run("connect", "cursor", "--yes", "--config", str(link), *address).code == 0


def test_a_broken_file_of_a_client_is_left_alone_and_the_others_are_done(run: Run) -> None:
    broken, whole = installed("cursor"), installed("gemini")
    broken.write_bytes(b'{"canary": ')
    said = run("connect", "cursor", "gemini")
    assert said.code == 1
    assert f"error: {broken}:1:" in said.err
    assert broken.read_bytes() == b'{"canary": '
    assert b"pegboard" in whole.read_bytes()


def test_they_work_as_a_process() -> None:
    path = installed("cursor")
    for command in ("connect", "disconnect"):
        done = subprocess.run(
            [*ENTRY, command, "cursor"], capture_output=True, timeout=60, check=True
        )
        assert b"canary" not in done.stdout + done.stderr
    assert path.read_bytes() == golden("cursor")


@pytest.mark.parametrize("agreed", ["--yes", "-y"])
def test_disconnect_takes_the_same_yes_as_connect(agreed: str, run: Run) -> None:
    path = CLIENTS["cursor"].file(Machine.here())
    assert run("connect", "cursor", agreed).code == 0
    assert path.exists()
    assert run("disconnect", "cursor", agreed).code == 0
    assert not path.exists()


@contextmanager
def answering(status: int, heard: list[str | None]) -> Generator[str]:
    """Serve one status, and note the `Authorization` of each request."""

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.append(self.headers["Authorization"])
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Location", f"http://{self.headers['Host']}/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/mcp"
        finally:
            server.shutdown()


def test_an_address_where_nothing_answers_is_written_with_a_warning(run: Run) -> None:
    path = installed("cursor")
    with answering(200, []) as url:
        pass
    said = run("connect", "cursor", "--url", f"{url}?key=canary-2")
    assert said.code == 0
    assert f"Nothing answers at {url} now (Connection refused)" in said.err
    assert "canary-2" not in said.err
    assert url.encode() in path.read_bytes()


@pytest.mark.parametrize(
    ("status", "key", "hint"),
    [
        (401, None, "requires a key: add `--header 'Authorization=Bearer pb_…'`."),
        (401, "Bearer pb_1", "does not accept this `Authorization` header."),
        (307, "Bearer pb_1", ""),
        (400, None, ""),
    ],
)
def test_an_address_that_wants_a_key_is_written_with_a_hint(
    run: Run, status: int, key: str | None, hint: str
) -> None:
    path, heard = installed("cursor"), list[str | None]()
    with answering(status, heard) as url:
        words = () if key is None else ("--header", f"Authorization={key}")
        said = run("connect", "cursor", "--url", url, *words)
    assert (said.code, heard) == (0, [key])
    assert f"{url} {hint}" in said.err if hint else url not in said.err
    assert url.encode() in path.read_bytes()


def test_only_with_an_address_says_what_to_do_while_no_gateway_runs(run: Run) -> None:
    said = run("connect", "cursor", "--url", "http://127.0.0.1:9/mcp", "--only")
    assert said.code == 2
    assert "Start `pegboard serve` first, or leave out `--only`." in said.err


def test_only_with_another_address_names_that_of_the_gateway_that_runs(
    run: Run, home: Path
) -> None:
    run("add", "time", "--", "no-such-program-here")
    with serving([*ENTRY, "serve", "--port", "0"], at=home, env=os.environ) as address:
        said = run("connect", "cursor", "--url", "http://127.0.0.1:9/mcp", "--only")
    assert said.code == 2
    assert f"`--url {address}/mcp`" in said.err
