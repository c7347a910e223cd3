"""Completion, as shells ask for it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pegboard.cli.commands import COMMANDS
from pegboard.cli.main import main

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
        ("pegboard serve --allow-", ["--allow-anonymous", "--allow-host", "--allow-origin"]),
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
    assert '"revoke":"Accept keys no more."' in capsys.readouterr().out
    monkeypatch.setenv("_PEGBOARD_COMPLETE", "complete_fish")
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    assert main([]) == 0
    assert capsys.readouterr().out == "revoke\tAccept keys no more.\n"


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
        name for name, it in COMMANDS.items() if f"pegboard.cli.{it.module}" in loaded
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
