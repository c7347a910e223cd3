"""Completion, as shells ask for it."""

import json
import os
import pty
import select
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pegboard.auth import ApiKeys, KeyGrant
from pegboard.cli.entry.command_table import COMMANDS
from pegboard.cli.main import main
from pegboard.config import load_servers
from pegboard.model import Tool
from pegboard.model.principal import OPERATOR
from pegboard.storage import open_store
from pegboard.upstream.catalog.offline_catalog import SERVERS, catalog_key
from tests.config.own_folders import FakeKeyring, use_own_folders

Captured = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch


def by_bash(line: str, capsys: Captured, monkeypatch: Patch) -> list[str]:
    words = line.split(" ")
    monkeypatch.setenv("_PEGBOARD_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "\n".join(words))
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    assert main([]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    return said.out.split()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("pegboard ", [*COMMANDS]),
        ("pegboard conf", ["config"]),
        ("pegboard --ver", ["--version"]),
        (
            "pegboard serve --allow-",
            ["--allow-anonymous", "--allow-register", "--allow-host", "--allow-origin"],
        ),
        ("pegboard --debug serve --dem", ["--demo"]),
        ("pegboard serve --surface ", ["search", "full"]),
        ("pegboard keys ", ["create", "list", "revoke", "rotate"]),
        ("pegboard keys create --scope re", ["read", "register"]),
    ],
)
def test_bash_is_told_what_fits(
    line: str, expected: list[str], capsys: Captured, monkeypatch: Patch
) -> None:
    assert by_bash(line, capsys, monkeypatch) == expected


def test_zsh_and_fish_are_told_with_words(capsys: Captured, monkeypatch: Patch) -> None:
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", "pegboard keys rev")
    monkeypatch.setenv("_PEGBOARD_COMPLETE", "complete_zsh")
    assert main([]) == 0
    assert (
        '"revoke":"Revoke keys, so that the gateway no longer accepts them."'
        in capsys.readouterr().out
    )
    monkeypatch.setenv("_PEGBOARD_COMPLETE", "complete_fish")
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    assert main([]) == 0
    assert (
        capsys.readouterr().out
        == "revoke\tRevoke keys, so that the gateway no longer accepts them.\n"
    )


@pytest.fixture
def known(tmp_path: Path, monkeypatch: Patch) -> Path:
    """A home where two servers are configured, one of them is remembered, and nothing can start."""
    use_own_folders(tmp_path, monkeypatch)
    monkeypatch.chdir(tmp_path)
    entries = {"mail": {"command": "no-such-program"}, "notes": {"command": "no-such-program"}}
    odd = {"$(touch pwned)": entries["mail"], "a b": entries["mail"], "--force": entries["mail"]}
    Path("mcp.json").write_text(json.dumps({"mcpServers": {**entries, **odd}}), "utf-8")
    monkeypatch.setenv("PEGBOARD_STORE", "it.db")
    with open_store() as store:
        store.save(Tool(name="own_definition"))
        [mail, *_] = load_servers("mcp.json").servers
        schema = {"type": "object", "properties": {"to": {}, "text": {}, "$(x)": {}}}
        tools = [{"name": "send", "inputSchema": schema}, {"name": "sort", "inputSchema": {}}]
        store.namespace(SERVERS).put(catalog_key(mail), {"negotiated": {}, "tools": tools})
    return tmp_path


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("pegboard show ", ["mcp_mail_send", "mcp_mail_sort", "own_definition"]),
        ("pegboard call mcp_mail_se", ["mcp_mail_send"]),
        ("pegboard call mcp_mail_send ", ["text=", "to="]),
        ("pegboard call mcp_mail_send te", ["text="]),
        ("pegboard call mcp_mail_send to=me ", ["text="]),
        ("pegboard call mcp_mail_sort ", []),
        ("pegboard call mcp_no_such_tool ", []),
        ("pegboard show --config other.json mcp_", []),  # nothing is remembered of it
        ("pegboard call --store other.db ", []),
        ("pegboard doctor ", ["mail", "notes"]),
        ("pegboard doctor mail n", ["notes"]),
        ("pegboard remove m", ["mail"]),
        ("pegboard remove --f", []),
        ("pegboard enable ", ["mail", "notes"]),
        ("pegboard disable --config other.json ", ["other"]),
        ("pegboard tools --server ", ["mail", "notes"]),
        ("pegboard search --server no", ["notes"]),
    ],
)
def test_names_are_those_of_the_file_and_the_store(
    line: str, expected: list[str], known: Path, capsys: Captured, monkeypatch: Patch
) -> None:
    other = {"mcpServers": {"other": {"command": "x"}}}
    (known / "other.json").write_text(json.dumps(other), encoding="utf-8")
    assert by_bash(line, capsys, monkeypatch) == expected
    assert not (known / "other.db").exists()


def test_keys_that_are_accepted_are_completed(
    known: Path, capsys: Captured, monkeypatch: Patch
) -> None:
    with open_store(tenant=OPERATOR) as store, ApiKeys(store) as keys:
        valid, revoked = (keys.create(KeyGrant(scopes=("call",))).key.id for _ in range(2))
        keys.revoke(revoked)
    for verb in ("revoke", "rotate"):
        assert by_bash(f"pegboard keys {verb} ", capsys, monkeypatch) == [valid]


def test_zsh_and_fish_complete_names_too(known: Path, capsys: Captured, monkeypatch: Patch) -> None:
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", "pegboard call mcp_")
    monkeypatch.setenv("_PEGBOARD_COMPLETE", "complete_zsh")
    assert main([]) == 0
    offered = capsys.readouterr().out
    assert '"mcp_mail_send"' in offered
    assert '"mcp_mail_sort"' in offered
    monkeypatch.setenv("_PEGBOARD_COMPLETE", "complete_fish")
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    assert main([]) == 0
    assert capsys.readouterr().out.split() == ["mcp_mail_send", "mcp_mail_sort"]


@pytest.mark.parametrize("line", ["pegboard show ", "pegboard doctor ", "pegboard tools --server "])
def test_no_keyring_is_opened_for_a_name(
    line: str, known: Path, capsys: Captured, monkeypatch: Patch
) -> None:
    asked: list[str] = []

    class AskingKeyring(FakeKeyring):
        def get_password(self, service: str, name: str) -> str | None:
            asked.append(name)
            return None

    monkeypatch.setitem(sys.modules, "keyring", AskingKeyring())
    content = json.loads((known / "mcp.json").read_bytes())
    content["mcpServers"]["paid"] = {"command": "x", "env": {"TOKEN": "${keyring:paid.TOKEN}"}}
    (known / "mcp.json").write_text(json.dumps(content), "utf-8")
    expected = (
        ["mcp_mail_send", "mcp_mail_sort", "own_definition"]
        if "show" in line
        else ["mail", "notes", "paid"]
    )
    assert by_bash(line, capsys, monkeypatch) == expected
    assert asked == []


NEVER_READING = """
import os, sys
sys.addaudithook(lambda event, given: event == "open" and "canary" in str(given[0]) and os._exit(9))
from pegboard.cli.main import main
sys.exit(main([]))
"""


def test_no_file_with_a_secret_is_read_for_a_name(known: Path) -> None:
    (known / "canary.env").write_text("TOKEN=abcdef", "utf-8")
    content = json.loads((known / "mcp.json").read_bytes())
    content["mcpServers"]["kept"] = {"command": "x", "env": {"TOKEN": "${file:canary.env}"}}
    content["mcpServers"]["paid"] = {"command": "x", "envFile": "canary.env"}
    (known / "mcp.json").write_text(json.dumps(content), "utf-8")
    line = {"_PEGBOARD_COMPLETE": "complete_bash", "COMP_WORDS": "pegboard\nshow\n"}
    ran = subprocess.run(
        [sys.executable, "-c", NEVER_READING],
        env={**os.environ, **line, "COMP_CWORD": "2"},
        capture_output=True,
        check=False,
        timeout=20,
    )
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert ran.stdout.split() == [b"mcp_mail_send", b"mcp_mail_sort", b"own_definition"]


@pytest.mark.parametrize("line", ["pegboard show m", "pegboard doctor m", "pegboard keys revoke "])
@pytest.mark.parametrize("broken", ["mcp.json", "it.db"])
def test_nothing_lands_in_the_line_when_something_is_broken(
    line: str, broken: str, known: Path, capsys: Captured, monkeypatch: Patch
) -> None:
    (known / broken).write_text("{", encoding="utf-8")
    monkeypatch.setenv("_PEGBOARD_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "\n".join(line.split(" ")))
    monkeypatch.setenv("COMP_CWORD", str(line.count(" ")))
    main([])
    said = capsys.readouterr()
    assert (said.out.strip() in ("", "mail"), said.err) == (True, "")


def test_no_server_is_spoken_to_for_a_name(known: Path) -> None:
    code = "import sys; from pegboard.cli.main import main; main([]); print(*sys.modules)"
    environ = {"_PEGBOARD_COMPLETE": "complete_bash", "COMP_WORDS": "pegboard\nshow\nmcp_"}
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, **environ, "COMP_CWORD": "2"},
        check=True,
    )
    names, modules = ran.stdout.split()[:2], set(ran.stdout.split()[2:])
    assert names == ["mcp_mail_send", "mcp_mail_sort"]
    assert modules.isdisjoint({"mcp", "httpx2", "asyncio", "anyio", "numpy"})


@pytest.mark.parametrize(
    ("line", "needed"), [("pegboard ser", set()), ("pegboard keys ", {"keys"})]
)
def test_only_the_command_on_the_line_is_imported(line: str, needed: set[str]) -> None:
    code = "import sys; from pegboard.cli.main import main; main([]); print(*sys.modules)"
    environ = {"_PEGBOARD_COMPLETE": "complete_bash", "COMP_WORDS": line}
    environ["COMP_CWORD"] = str(len(line.split(" ")) - 1)
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, **environ},
        check=True,
    )
    loaded = set(ran.stdout.split())
    assert {
        name for name, it in COMMANDS.items() if f"pegboard.cli.commands.{it.module}" in loaded
    } == needed


@pytest.mark.parametrize("instruction", ["complete", "complete_tcsh", "dance_bash"])
def test_an_odd_request_is_no_traceback(
    instruction: str, capsys: Captured, monkeypatch: Patch
) -> None:
    monkeypatch.setenv("_PEGBOARD_COMPLETE", instruction)
    assert main([]) == 1
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_bash_itself_completes_with_what_is_installed(tmp_path: Path, capsys: Captured) -> None:
    # An interactive bash reads this when it starts; here it is read by hand.
    environ = {**os.environ, "HOME": str(tmp_path)}
    environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environ['PATH']}"
    subprocess.run(
        ["pegboard", "--install-completion", "bash"], env=environ, check=True, capture_output=True
    )
    script = f"""
        source {tmp_path}/.bashrc
        COMP_WORDS=(pegboard keys cr) COMP_CWORD=2
        _pegboard_completion pegboard
        echo "${{COMPREPLY[@]}}"
    """
    ran = subprocess.run(
        ["bash", "-c", script], env=environ, capture_output=True, encoding="utf-8", check=True
    )
    assert ran.stdout.split() == ["create"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_tab_completes_in_a_live_bash(known: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environ = {**os.environ, "HOME": str(known), "PATH": path, "TERM": "xterm"}
    subprocess.run(
        ["pegboard", "--install-completion", "bash"], env=environ, check=True, capture_output=True
    )
    ours, theirs = pty.openpty()
    shell = subprocess.Popen(
        ["bash", "--noprofile", "-i"],
        env={**environ, "INPUTRC": os.devnull},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        shown = ""
        # Behind a finished word comes a space; behind the name of an argument its value.
        for typed, completed in (
            ("pegboard sta\t", "pegboard status "),
            ("\x15pegboard call mcp_mail_se\t", "pegboard call mcp_mail_send "),
            ("te\thello", "pegboard call mcp_mail_send text=hello"),
            (" t\tme", "text=hello to=me"),
            ("\x15pegboard keys cre\t--sco\tre\t", "pegboard keys create --scope re"),
        ):
            os.write(ours, typed.encode())
            while completed not in shown:
                assert select.select([ours], [], [], 30)[0], shown
                shown += os.read(ours, 4096).decode("utf-8", "replace").replace("\x07", "")
    finally:
        shell.kill()
        shell.wait()
        os.close(ours)


@pytest.mark.parametrize(
    ("shell", "file"),
    [("zsh", ".zfunc/_pegboard"), ("fish", ".config/fish/completions/pegboard.fish")],
)
def test_other_shells_get_a_file(
    shell: str, file: str, tmp_path: Path, capsys: Captured, monkeypatch: Patch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", f"/usr/bin/{shell}")
    monkeypatch.setenv("PYTHONWARNDEFAULTENCODING", "0")
    ran = subprocess.run(
        [sys.executable, "-m", "pegboard.cli.main", "--install-completion"],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (0, "")
    assert file in ran.stderr
    assert "_PEGBOARD_COMPLETE=complete_" in (tmp_path / file).read_text("utf-8")
    assert main(["--show-completion", shell]) == 0
    assert "_PEGBOARD_COMPLETE=complete_" in capsys.readouterr().out


@pytest.mark.parametrize("shell", ["", "/bin/tcsh"])
def test_an_unknown_shell_is_asked_for(shell: str, capsys: Captured, monkeypatch: Patch) -> None:
    monkeypatch.setenv("SHELL", shell)
    assert main(["--install-completion"]) == 2
    assert "`pegboard --install-completion bash`" in capsys.readouterr().err


# Typer opens the file of the shell without saying how it is encoded.
@pytest.mark.filterwarnings("ignore::EncodingWarning")
def test_what_keeps_completion_from_being_installed_is_told(
    tmp_path: Path, capsys: Captured, monkeypatch: Patch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".bash_completions").write_text("in the way", "utf-8")
    assert main(["--install-completion", "bash"]) == 1
    assert capsys.readouterr().err.startswith("error: Completion cannot be installed: ")
