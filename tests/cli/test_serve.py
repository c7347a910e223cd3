"""`pegboard serve`: what it says when it starts; what it does is tried in tests/server."""

import signal
import sys
from pathlib import Path

import pytest
import typer

from pegboard.cli.main import main
from pegboard.cli.serve import serve
from tests.server.processes import appears, serving


async def test_without_a_configuration_it_serves_nothing_and_says_what_to_do(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, XDG_CONFIG_HOME=str(tmp_path), PEGBOARD_CONFIG="") as served:
        await served.hears("For the file of your client")
        assert "`pegboard import`" in served.said
        assert "`pegboard serve --demo`" in served.said
        served.process.send_signal(signal.SIGINT)
        await served.rest()
        assert served.process.returncode == 0
    assert "Traceback" not in served.said


async def test_ended_while_it_starts_it_does_not_say_what_it_serves(tmp_path: Path) -> None:
    mark = tmp_path / "started"
    script = f"import sys; open({str(mark)!r}, 'w').close(); sys.stdin.read()"
    entry = {"command": sys.executable, "args": ["-c", script]}
    async with serving(tmp_path, config={"mcpServers": {"stuck": entry}}) as served:
        await appears(mark)
        served.process.send_signal(signal.SIGINT)
        said = await served.rest()
        assert served.process.returncode == 0
    assert "Pegboard serves" not in said
    assert "For the file of your client" not in said


@pytest.mark.parametrize("words", [["--drain", "-1"], ["--notice", "soon"], ["more"]])
def test_what_cannot_be_meant_is_misuse(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pegboard.cli.early_signals.hear_signals_early", lambda: None)
    assert main(["serve", *words]) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_on_windows_it_says_where_it_runs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", "win32")
    with pytest.raises(typer.Exit) as ended:
        serve()
    assert ended.value.exit_code == 1
    assert "on Windows use WSL" in capsys.readouterr().err
