"""Folders of a test's own, for what Pegboard keeps."""

from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest


class FakeKeyring(ModuleType):
    """What is used of `keyring`, in memory."""

    def __init__(self, priority: float = 5) -> None:
        super().__init__("keyring")
        self.kept: dict[tuple[str, str], str] = {}
        self.priority = priority
        self.is_locked = False

    def get_keyring(self) -> SimpleNamespace:
        return SimpleNamespace(priority=self.priority)

    def get_password(self, service: str, name: str) -> str | None:
        if self.is_locked:
            raise RuntimeError("locked: canary-in-an-error")
        return self.kept.get((service, name))

    def set_password(self, service: str, name: str, password: str) -> None:
        self.kept[service, name] = password

    def delete_password(self, service: str, name: str) -> None:
        del self.kept[service, name]


def use_own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Redirect every folder of the user to this test, and give it no keyring."""
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))
    for name in ("CONFIG", "DATA", "STATE"):
        monkeypatch.delenv(f"XDG_{name}_HOME", raising=False)
    for name in ("PEGBOARD_CONFIG", "CODEX_HOME", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    monkeypatch.chdir(tmp_path)
    return home
