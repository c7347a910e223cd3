"""A machine of each kind, with the files of every client on it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pegboard.clients import CLIENTS, Machine

GOLDEN = Path(__file__).parents[1] / "data" / "clients"
PLATFORMS = ("linux", "darwin", "win32")


@pytest.fixture(autouse=True)
def no_blocking_calls() -> None:
    """Files are read and written by commands, beside which nothing else runs."""


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what is ours in this test."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    for name in ("CONFIG", "DATA", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / "xdg" / name.lower()))
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    monkeypatch.delenv("PEGBOARD_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def machine(tmp_path: Path) -> Callable[[str], Machine]:
    def made(platform: str) -> Machine:
        environ = {"APPDATA": str(tmp_path / "Roaming"), "LOCALAPPDATA": str(tmp_path / "Local")}
        project = tmp_path / "project"
        project.mkdir(exist_ok=True)
        return Machine(
            platform=platform,
            environ=environ if platform == "win32" else {},
            home=tmp_path / "ada",
            directory=project,
        )

    return made


def golden(name: str) -> bytes:
    suffix = {"codex": "toml", "goose": "yaml"}.get(name, "json")
    return (GOLDEN / f"{name}.{suffix}").read_bytes()


def put_in_place(name: str, machine: Machine, content: bytes | None = None) -> Path:
    """Write the golden file of a client to where it keeps it."""
    path = CLIENTS[name].file(machine)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(golden(name) if content is None else content)
    return path
