"""Files of clients that were changed by others, and commands that were interrupted."""

import json
import os
import tomllib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import pegboard.clients.connection
from pegboard.clients import CLIENTS, OUR_NAME, Machine, connect, disconnect, has_other_entry
from pegboard.clients.client_file import with_entries, without_entries
from pegboard.config.atomic_write import write_file
from pegboard.errors import ConfigError
from tests.clients.conftest import golden, put_in_place

Machines = Callable[[str], Machine]
CURSOR = CLIENTS["cursor"]
ENTRY = CURSOR.program_entry("/opt/pegboard", ["serve", "--stdio"])
FOREIGN = {"command": "my-own-shop-inventory", "args": ["--shelf", "7"]}


class Killed(BaseException):
    """No code catches it."""


@pytest.fixture
def here(machine: Machines) -> Machine:
    return machine("linux")


def entries(path: Path) -> dict[str, Any]:
    return json.loads(path.read_bytes())["mcpServers"]


def write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps({"mcpServers": content}), "utf-8")


def state(tmp_path: Path) -> list[str]:
    folder = tmp_path / "xdg/state/pegboard/clients"
    return sorted(it.name for it in folder.iterdir()) if folder.is_dir() else []


@pytest.mark.parametrize("at", range(5))
@pytest.mark.parametrize("is_second", [False, True])
def test_wherever_connect_dies_the_file_comes_back(
    at: int, is_second: bool, here: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put_in_place("cursor", here)
    if is_second:
        connect(CURSOR, here, ENTRY, take_out=["files"])
    written = 0

    def dying(*arguments: Any, **named: Any) -> None:
        nonlocal written
        if written == at:
            raise Killed
        written += 1
        really(*arguments, **named)

    really = write_file
    with monkeypatch.context() as patch:
        patch.setattr(pegboard.clients.connection, "write_file", dying)
        patch.setattr(pegboard.clients.connection, "write_file", dying)
        with suppress(Killed):
            connect(CURSOR, here, CURSOR.address_entry("http://127.0.0.1:1/mcp"), take_out=["docs"])
    connect(CURSOR, here, ENTRY, take_out=["docs"])
    disconnect(CURSOR, here)
    assert path.read_bytes() == golden("cursor")


@pytest.mark.parametrize("at", range(4))
@pytest.mark.parametrize("ends", [connect, disconnect])
def test_what_a_killed_connect_left_goes_with_the_next_command(
    at: int,
    ends: Callable[..., object],
    here: Machine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put_in_place("cursor", here)
    for _ in range(3):
        die_at(at, here, monkeypatch)
    for name in (".cursor.backup.ab12_xyz.tmp", ".cursor.json.ab12_xyz.tmp"):
        left = tmp_path / "xdg/state/pegboard/clients" / name
        left.parent.mkdir(parents=True, exist_ok=True)
        left.write_bytes(b"half")
        os.utime(left, (0, 0))
    ends(CURSOR, here, *([ENTRY] if ends is connect else []))
    there = state(tmp_path)
    assert [it.split(".")[-1] for it in there] == (["backup", "json"] if ends is connect else [])


def die_at(at: int, here: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Connect, and be killed when something is to be written for the nth time."""
    written = 0

    def dying(*arguments: Any, **named: Any) -> None:
        nonlocal written
        if written == at:
            raise Killed
        written += 1
        write_file(*arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(pegboard.clients.connection, "write_file", dying)
        patch.setattr(pegboard.clients.connection, "write_file", dying)
        with suppress(Killed):
            connect(CURSOR, here, ENTRY, take_out=["docs"])


def test_a_backup_that_holds_what_nothing_else_does_stays(here: Machine) -> None:
    path = put_in_place("cursor", here)
    connect(CURSOR, here, ENTRY)
    path.write_bytes(path.read_bytes() + b"\n")
    undone = disconnect(CURSOR, here)
    assert undone is not None
    assert undone.backup is not None
    connect(CURSOR, here, ENTRY)
    disconnect(CURSOR, here)
    assert undone.backup.read_bytes() == golden("cursor")
    path.write_bytes(golden("cursor"))
    connect(CURSOR, here, ENTRY)
    disconnect(CURSOR, here)
    assert not undone.backup.exists()


def test_dying_in_the_middle_is_undone_by_disconnect_alone(
    here: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put_in_place("cursor", here)
    really = write_file

    def dying(written: Path, *arguments: Any, **named: Any) -> None:
        really(written, *arguments, **named)
        if written == path:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(pegboard.clients.connection, "write_file", dying)
        with pytest.raises(Killed):
            connect(CURSOR, here, ENTRY, take_out=["docs"])
    assert b"/opt/pegboard" in path.read_bytes()
    disconnect(CURSOR, here)
    assert path.read_bytes() == golden("cursor")


def test_what_could_not_be_written_leaves_nothing_behind(
    here: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put_in_place("cursor", here)

    def full(*_: object, **__: object) -> None:
        raise ConfigError("The file cannot be written: No space left on device.")

    with monkeypatch.context() as patch:
        patch.setattr(pegboard.clients.connection, "write_file", full)
        with pytest.raises(ConfigError, match="No space"):
            connect(CURSOR, here, ENTRY)
    assert path.read_bytes() == golden("cursor")
    assert state(tmp_path) == []


def test_servers_come_back_though_somebody_removed_our_entry(here: Machine) -> None:
    path = put_in_place("cursor", here)
    connect(CURSOR, here, ENTRY, take_out=["docs"])
    path.write_bytes(
        without_entries(path, path.read_text("utf-8"), ("mcpServers",), [OUR_NAME]).encode()
    )
    undone = disconnect(CURSOR, here)
    assert undone is not None
    assert undone.put_back == ("docs",)
    assert undone.backup is not None
    assert b"docs.example.com" in path.read_bytes()


def test_of_a_file_that_somebody_removed_the_backup_is_named_and_stays(here: Machine) -> None:
    path = put_in_place("cursor", here)
    connect(CURSOR, here, ENTRY, take_out=["docs"])
    path.unlink()
    undone = disconnect(CURSOR, here)
    assert undone is not None
    assert undone.backup is not None
    assert not path.exists()
    write(path, {"other": {"command": "x"}})
    again = connect(CURSOR, here, ENTRY)
    assert again.backup != undone.backup
    assert undone.backup.read_bytes() == golden("cursor")


def test_a_damaged_record_is_told_and_disconnect_names_the_backup(
    here: Machine, tmp_path: Path
) -> None:
    path = put_in_place("cursor", here)
    connect(CURSOR, here, ENTRY, take_out=["docs"])
    (tmp_path / "xdg/state/pegboard/clients/cursor.json").write_text("{", "utf-8")
    with pytest.raises(ConfigError, match="pegboard disconnect cursor"):
        connect(CURSOR, here, ENTRY)
    undone = disconnect(CURSOR, here)
    assert undone is not None
    assert undone.backup is not None
    assert undone.backup.read_bytes() == golden("cursor")
    assert b"/opt/pegboard" not in path.read_bytes()
    assert disconnect(CURSOR, here) is None


def test_somebody_else_s_server_of_our_name_is_left_alone(here: Machine) -> None:
    path = put_in_place("cursor", here, b"{}")
    write(path, {OUR_NAME: FOREIGN, "b": {"command": "b"}})
    before = path.read_bytes()
    assert has_other_entry(CURSOR, here)
    assert disconnect(CURSOR, here) is None
    assert path.read_bytes() == before


def test_it_comes_back_even_if_the_file_was_changed_meanwhile(here: Machine) -> None:
    path = put_in_place("cursor", here, b"{}")
    write(path, {OUR_NAME: FOREIGN, "b": {"command": "b"}})
    connect(CURSOR, here, ENTRY)
    assert not has_other_entry(CURSOR, here)
    write(path, {**entries(path), "c": {"command": "c"}})
    disconnect(CURSOR, here)
    assert entries(path) == {"b": {"command": "b"}, "c": {"command": "c"}, OUR_NAME: FOREIGN}


def test_an_entry_that_took_our_place_stays(here: Machine) -> None:
    path = put_in_place("cursor", here, b"{}")
    write(path, {"b": {"command": "b"}})
    connect(CURSOR, here, ENTRY, take_out=["b"])
    write(path, {OUR_NAME: FOREIGN})
    disconnect(CURSOR, here)
    assert entries(path) == {OUR_NAME: FOREIGN, "b": {"command": "b"}}


DOTTED = """model = "o3"
mcp_servers.a.command = "x"
mcp_servers.a.args = ["1"]

[profiles.deep]
model = "o4"
"""


@pytest.mark.parametrize(
    "content",
    [
        DOTTED,
        'mcp_servers.a.command = "x"\n',
        'mcp_servers = {a = {command = "x"}}\n',
        "mcp_servers = {}\n[other]\nmcp_servers.a = 1\n",
        '[mcp_servers]\na.command = "x"\n',
        '[mcp_servers.a]\ncommand = "x"\n[z]\nb = 1\n[mcp_servers.b]\ncommand = "y"\n',
        "[[other]]\nx = 1\n[[other]]\nx = 2\n",
    ],
)
def test_toml_of_any_shape_is_changed_rightly_or_not_at_all(content: str, here: Machine) -> None:
    codex = CLIENTS["codex"]
    path = put_in_place("codex", here, content.encode())
    try:
        connect(codex, here, codex.program_entry("/opt/pegboard", ["serve"]))
    except ConfigError:
        assert "mcp_servers." in content
    else:
        now = tomllib.loads(path.read_text("utf-8"))
        assert now["mcp_servers"].pop(OUR_NAME)["command"] == "/opt/pegboard"
        before = tomllib.loads(content)
        assert now | {"mcp_servers": now["mcp_servers"]} == {"mcp_servers": {}} | before
        disconnect(codex, here)
    assert path.read_text("utf-8") == content


def test_taking_out_of_toml_takes_out_nothing_else() -> None:
    path = Path("config.toml")
    try:
        text = without_entries(path, DOTTED, ("mcp_servers",), ["a"])
    except ConfigError:
        return
    assert tomllib.loads(text).get("mcp_servers", {}) == {}
    assert tomllib.loads(text)["profiles"] == {"deep": {"model": "o4"}}
    again = with_entries(path, text, ("mcp_servers",), {"a": {"command": "x"}})
    assert tomllib.loads(again)["mcp_servers"]["a"] == {"command": "x"}
