import os
import sys
from pathlib import Path

import pytest

from tests.doctor.patients import codes, diagnosis, found_in, script, speaking


async def test_a_command_that_is_not_there_is_named_with_a_way_to_find_it() -> None:
    finding = await diagnosis({"command": "pegboard-nonesuch"}, "command_not_found")
    assert "'pegboard-nonesuch' was not found" in finding.what
    assert "`which pegboard-nonesuch`" in finding.remedy


@pytest.mark.parametrize(
    ("command", "brings"), [("npx", "Node.js"), ("uvx", "uv"), ("docker", "Docker")]
)
async def test_a_missing_launcher_is_told_with_what_to_install(
    command: str, brings: str, tmp_path: Path
) -> None:
    entry = {"command": command, "args": ["some-server"], "env": {"PATH": str(tmp_path)}}
    finding = await diagnosis(entry, "command_not_found")
    assert f"'{command}' was not found" in finding.what
    assert f"Install {brings}" in finding.remedy


async def test_a_file_that_is_not_executable_is_told_with_the_command_that_makes_it_so(
    tmp_path: Path,
) -> None:
    path = script(tmp_path / "server.py", "print()", mode=0o644)
    finding = await diagnosis({"command": path}, "not_executable")
    assert f"`chmod +x {path}`" in finding.remedy


async def test_a_folder_as_a_command_is_told(tmp_path: Path) -> None:
    finding = await diagnosis({"command": str(tmp_path)}, "not_executable")
    assert "a folder" in finding.what


async def test_a_command_that_cannot_even_be_looked_at_is_told(tmp_path: Path) -> None:
    finding = await diagnosis({"command": str(tmp_path / ("x" * 300))}, "not_executable")
    assert "cannot be accessed (File name too long)" in finding.what


@pytest.mark.skipif(os.geteuid() == 0, reason="root may enter everything")
async def test_a_command_in_a_folder_that_nobody_may_enter_is_told(tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir()
    path = script(tmp_path / "locked" / "server.py", "print()")
    (tmp_path / "locked").chmod(0o600)
    finding = await diagnosis({"command": path}, "not_executable")
    assert "cannot be accessed (Permission denied)" in finding.what


async def test_a_script_whose_interpreter_has_gone_is_told(tmp_path: Path) -> None:
    path = script(tmp_path / "server", "#!/nowhere/venv/bin/python\n")
    finding = await diagnosis({"command": path}, "missing_interpreter")
    assert "'/nowhere/venv/bin/python'" in finding.what


async def test_a_script_that_wants_node_from_the_environment_is_told(tmp_path: Path) -> None:
    path = script(tmp_path / "server", "#!/usr/bin/env node\n")
    entry = {"command": path, "env": {"PATH": str(tmp_path)}}
    finding = await diagnosis(entry, "missing_interpreter")
    assert "Install Node.js" in finding.remedy


@pytest.mark.parametrize(
    ("entry", "written"),
    [
        ({"command": "cmd", "args": ["/c", "npx", "-y", "server"]}, '"command": "npx"'),
        ({"command": "npx.cmd", "args": ["-y", "server"]}, '"command": "npx"'),
        ({"command": "C:\\Tools\\server.exe"}, "that this system has"),
    ],
)
async def test_a_command_of_windows_is_told_with_what_to_write_here(
    entry: dict[str, object], written: str
) -> None:
    finding = await diagnosis(entry, "windows_command")
    assert written in finding.remedy


async def test_a_relative_path_is_told_with_where_it_begins() -> None:
    finding = await diagnosis({"command": "./servers/nonesuch"}, "command_not_found")
    assert str(Path.cwd()) in finding.remedy


async def test_a_whole_command_line_is_taken_apart() -> None:
    findings = await found_in({"command": "npx -y some-server"})
    assert codes(findings) == ["doubtful_entry", "command_not_found"]
    assert '`"command": "npx", "args": ["-y", "some-server"]`' in findings[1].remedy


async def test_a_whole_command_line_with_full_paths_is_taken_apart() -> None:
    finding = await diagnosis({"command": f"{sys.executable} /x/todo.py"}, "command_not_found")
    assert f'`"command": "{sys.executable}", "args": ["/x/todo.py"]`' in finding.remedy


async def test_a_working_directory_that_is_not_there_is_told(tmp_path: Path) -> None:
    entry = speaking(cwd=str(tmp_path / "gone"))
    finding = await diagnosis(entry, "bad_directory")
    assert str(tmp_path / "gone") in finding.what


async def test_what_only_a_shell_would_understand_is_told() -> None:
    tool = {"name": "greet", "description": "Greet.", "inputSchema": {"type": "object"}}
    entry = speaking(tool)
    entry["args"] += ["~/notes", "$HOME/notes", "|", "~x", "a$b"]
    findings = await found_in(entry)
    assert codes(findings) == ["shell_syntax"] * 3
    assert "`~/notes`" in findings[0].what
    assert "`${userHome}/notes`" in findings[0].remedy
    assert "`${HOME}/notes`" in findings[1].remedy
    assert '"command": "sh"' in findings[2].remedy


async def test_a_shell_may_have_all_of_its_syntax() -> None:
    entry = {"command": "sh", "args": ["-c", "exit 3", "~", "|"]}
    assert codes(await found_in(entry)) == ["exited"]
