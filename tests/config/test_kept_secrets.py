"""Secrets that stand outside of the file."""

import os
import stat
import sys
from pathlib import Path

import pytest

from pegboard.config import load_servers
from pegboard.config.secrets.kept_secrets import KeptTogether, in_keyring, keep_secret
from pegboard.errors import ConfigError
from tests.config.own_folders import FakeKeyring, use_own_folders


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return use_own_folders(tmp_path, monkeypatch)


def token_of(reference: str) -> str | None:
    content = {"mcpServers": {"a": {"url": "https://a.test", "bearer_token": reference}}}
    loaded = load_servers(content, strict=True)
    assert "canary" not in repr(loaded).lower()
    return loaded.servers[0].bearer_token


def test_what_the_file_refers_to_is_not_taken_back(tmp_path: Path, home: Path) -> None:
    path = tmp_path / "mcp.json"
    with pytest.raises(KeyboardInterrupt), KeptTogether(path) as keep:
        kept = keep("a.KEY", "canary-1234")
        keep("b.KEY", "canary-5678")
        path.write_text(kept.reference, "utf-8")
        raise KeyboardInterrupt
    files = [it for it in home.rglob("*.KEY") if it.is_file()]
    assert [it.read_text("utf-8") for it in files] == ["canary-1234\n"]


def test_without_a_keyring_a_secret_is_in_a_file_for_its_owner_alone(home: Path) -> None:
    kept = keep_secret("a.TOKEN", "canary-1234")
    assert kept.where == "file"
    if sys.platform == "linux":
        assert kept.reference == "${file:~/.local/share/pegboard/secrets/a.TOKEN}"
        path = home / ".local/share/pegboard/secrets/a.TOKEN"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert token_of(kept.reference) == "canary-1234"


def test_a_name_that_is_taken_gets_a_number_and_the_same_secret_none() -> None:
    first = keep_secret("a/../B", "canary-1")
    assert keep_secret("a/../B", "canary-1") == first
    second = keep_secret("a/../B", "canary-2")
    assert second.reference == first.reference.replace("a_.._B", "a_.._B.2")
    assert token_of(first.reference) == "canary-1"
    assert token_of(second.reference) == "canary-2"


@pytest.mark.parametrize("names", [["天气", "地图"], ["x" * 200 + "1", "x" * 200 + "2"]])
def test_names_that_no_file_can_have_are_told_apart_without_numbers(names: list[str]) -> None:
    secrets = ["canary-0", "canary-1"]
    kept = [keep_secret(f"{names[it]}.API_KEY", secrets[it]).reference for it in range(2)]
    assert len(set(kept)) == 2
    # A number would say that the name was taken, and a thousand of them would be tried in turn.
    assert not any(it.endswith(".2}") for it in kept)
    assert [token_of(it) for it in kept] == secrets
    assert keep_secret(f"{names[1]}.API_KEY", secrets[1]).reference == kept[1]


def test_a_keyring_that_works_is_preferred(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keyring = FakeKeyring()
    monkeypatch.setitem(sys.modules, "keyring", keyring)
    kept = keep_secret("a.TOKEN", "canary-1234")
    assert kept == ("keyring", "${keyring:a.TOKEN}")
    assert keyring.kept == {("pegboard", "secret:a.TOKEN"): "canary-1234"}
    assert keep_secret("a.TOKEN", "canary-5678").reference == "${keyring:a.TOKEN.2}"
    assert token_of(kept.reference) == "canary-1234"
    # `pegboard uninstall` needs the names: no keyring lists them.
    [noted] = [it for it in home.rglob("*") if it.is_file()]
    assert noted.read_text("utf-8") == "secret:a.TOKEN\nsecret:a.TOKEN.2\n"
    assert in_keyring() == ["secret:a.TOKEN", "secret:a.TOKEN.2"]


@pytest.mark.parametrize("state", ["locked", "useless", "absent"])
def test_a_keyring_that_does_not_work_is_passed_over(
    state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyring = FakeKeyring(priority=0 if state == "useless" else 5)
    keyring.is_locked = state == "locked"
    monkeypatch.setitem(sys.modules, "keyring", None if state == "absent" else keyring)
    assert keep_secret("a.TOKEN", "canary-1234").where == "file"
    assert keyring.kept == {}


def test_what_is_not_there_is_told_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"The secret `file:nowhere\.txt` was not found"):
        token_of("${file:nowhere.txt}")
    assert token_of("${file:nowhere.txt:-other}") == "other"
    keyring = FakeKeyring()
    monkeypatch.setitem(sys.modules, "keyring", keyring)
    with pytest.raises(ConfigError, match="`keyring:a` was not found in the keyring"):
        token_of("${keyring:a}")
    keyring.is_locked = True
    with pytest.raises(ConfigError, match=r"cannot be opened \(RuntimeError\)") as caught:
        token_of("${keyring:a}")
    assert "canary" not in str(caught.value)
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(ConfigError, match=r"pegboard\[keyring\]"):
        token_of("${keyring:a}")


def test_a_file_is_looked_for_beside_the_configuration(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "mcp.json").write_bytes(b'{"a": {"command": "x", "args": ["${file:key}"]}}')
    (folder / "key").write_bytes(b"canary-beside\r\n")
    loaded = load_servers(folder / "mcp.json")
    assert loaded.servers[0].args == ("canary-beside",)
    assert loaded.servers[0].target == "x ***"


@pytest.mark.parametrize("content", [b"\xff\xfe", b"x" * 70_000, b"x" * 11_000_000])
def test_what_is_no_short_text_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(content)
    with pytest.raises(ConfigError):
        token_of("${file:key}")


@pytest.mark.parametrize("path", ["\0", "/", "~/", "", "x" * 5000])
def test_a_path_that_leads_to_no_file_is_reported(path: str) -> None:
    with pytest.raises(ConfigError):
        token_of(f"${{file:{path}}}")


def test_a_folder_that_cannot_be_made_is_an_error_in_words(home: Path) -> None:
    for name in (".local", "Library", "AppData"):
        (home / name).write_bytes(b"")
    with pytest.raises(ConfigError, match="cannot be"):
        keep_secret("a", "canary")


def test_what_is_kept_is_taken_back_if_the_rest_fails(home: Path) -> None:
    before = keep_secret("a.TOKEN", "canary-1")
    kept: list[str] = []
    with pytest.raises(ConfigError), KeptTogether(Path("mcp.json")) as keep:
        kept += [keep("a.TOKEN", "canary-1").reference, keep("a.TOKEN", "canary-2").reference]
        raise ConfigError("The file cannot be written.")
    assert kept[0] == before.reference
    files = [it for it in (home / ".local/share").rglob("*") if it.is_file()]
    assert [it.read_text("utf-8") for it in files] == ["canary-1\n"]


def test_what_a_killed_command_left_of_a_secret_is_removed(home: Path) -> None:
    keep_secret("a.TOKEN", "canary-1")
    (kept,) = (it for it in (home / ".local/share").rglob("*") if it.is_file())
    left = kept.with_name(".a.TOKEN.2.ab12_xyz.tmp")
    left.write_bytes(b"canary-2")
    os.utime(left, (0, 0))
    with KeptTogether(Path("mcp.json")) as keep:
        keep("b.TOKEN", "canary-3")
    assert sorted(it.name for it in kept.parent.iterdir()) == ["a.TOKEN", "b.TOKEN"]


def test_the_keyring_gives_it_back_too(monkeypatch: pytest.MonkeyPatch) -> None:
    keyring = FakeKeyring()
    monkeypatch.setitem(sys.modules, "keyring", keyring)
    with pytest.raises(ConfigError), KeptTogether(Path("mcp.json")) as keep:
        keep("a.TOKEN", "canary-2")
        raise ConfigError("The file cannot be written.")
    assert keyring.kept == {}


def test_a_secret_that_is_too_long_is_refused() -> None:
    with pytest.raises(ConfigError, match="too long"):
        keep_secret("a.TOKEN", "k9Z" * 25_000)
