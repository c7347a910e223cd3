"""Announcements: files that only their owner reads, of processes that are there."""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec
import pytest
from msgspec.structs import replace

from pegboard.hub import Hub
from pegboard.server.http.local_api import LocalToken
from pegboard.server.http.request import HttpRequest
from pegboard.server.process.assembly import ServeOptions
from pegboard.server.process.instance_discovery import (
    RunningInstance,
    has_others,
    identity_of,
    place_of_store,
    publish,
    running_instances,
    withdraw,
)
from pegboard.server.process.run import announce, own_address
from pegboard.server.process.signals import Shutdown

CANARY = "pbo_canary"


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


def announcement(pid: int | None = None) -> RunningInstance:
    number = os.getpid() if pid is None else pid
    machine, started = identity_of(number)
    return RunningInstance(
        pid=number,
        started=started,
        machine=machine,
        address="http://127.0.0.1:1",
        config=None,
        store=None,
        token=CANARY,
    )


def test_another_gateway_with_the_same_store_is_seen(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/it.db"
    publish(replace(announcement(), store=place_of_store(store)))
    publish(announcement(os.getppid()))
    assert not has_others(store)
    publish(replace(announcement(os.getppid()), store=place_of_store(store)))
    assert has_others(store)
    assert not has_others(f"sqlite:///{tmp_path}/other.db")


def test_what_is_announced_is_found_until_it_is_withdrawn() -> None:
    here = announcement()
    path = publish(here)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert list(running_instances()) == [here]
    withdraw(path)
    assert list(running_instances()) == []
    withdraw(path)


def test_every_new_folder_is_private_whatever_the_umask(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(state / "above"))
    before = os.umask(0)
    try:
        path = publish(announcement())
    finally:
        os.umask(before)
    made = [path, *path.parents][: len(path.relative_to(state).parts)]
    assert [it.stat().st_mode & 0o777 for it in made] == [0o600, 0o700, 0o700, 0o700]


def test_what_a_dead_process_left_behind_is_removed() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    path = publish(announcement(ended.pid))
    assert list(running_instances()) == []
    assert not path.exists()


def test_another_process_with_the_same_number_is_not_meant() -> None:
    path = publish(replace(announcement(), started="long ago"))
    assert list(running_instances()) == []
    assert not path.exists()


def test_what_runs_on_another_machine_is_left_alone() -> None:
    path = publish(replace(announcement(), machine="elsewhere"))
    assert list(running_instances()) == []
    assert path.exists()


def test_a_file_that_others_could_have_written_is_not_believed(state: Path) -> None:
    path = publish(announcement())
    path.chmod(0o660)
    assert list(running_instances()) == []
    path.chmod(0o600)
    (path.parent / "1.json").symlink_to(path)
    (path.parent / "2.json").write_text("{", encoding="utf-8")
    assert len(list(running_instances())) == 1


def test_the_token_is_shown_to_nobody() -> None:
    assert CANARY not in repr(announcement())
    assert CANARY not in str(announcement().__rich_repr__())


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "http://127.0.0.1:5"),
        ("localhost", "http://localhost:5"),
        ("::1", "http://[::1]:5"),
        ("::ffff:127.0.0.1", "http://[::ffff:127.0.0.1]:5"),
        ("0.0.0.0", "http://127.0.0.1:5"),
        ("::", "http://[::1]:5"),
        ("192.0.2.1", None),
        ("example.com", None),
    ],
)
def test_a_gateway_is_reached_over_loopback_or_not_at_all(host: str, address: str | None) -> None:
    assert own_address(host, 5) == address


def test_a_store_is_the_same_from_any_folder_and_its_password_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert place_of_store("tools.json") == place_of_store(str(tmp_path / "tools.json"))
    assert "secret" not in place_of_store("postgresql://me:secret@host/db")


def request(source: str, *authorization: str) -> HttpRequest:
    headers = [(b"authorization", it.encode("latin-1")) for it in authorization]
    scope = {"type": "http", "method": "GET", "headers": headers, "client": (source, 1)}

    async def nothing(*_: object) -> None: ...

    return HttpRequest(scope, nothing, nothing)  # pyright: ignore[reportArgumentType]


def test_the_owner_is_known_by_the_token_and_only_on_this_machine() -> None:
    owner = LocalToken()
    right = f"Bearer {owner.token}"
    assert owner.sent(request("127.0.0.1", right))
    assert owner.sent(request("::1", right))
    assert owner.sent(request("::ffff:127.0.0.1", right))
    assert not owner.sent(request("10.0.0.1", right))
    assert not owner.sent(request("127.0.0.1", right, right))
    assert not owner.sent(request("127.0.0.1", f"Basic {owner.token}"))
    assert not owner.sent(request("127.0.0.1", f"Bearer {owner.token}x"))
    assert not owner.sent(request("127.0.0.1", "Bearer \xe9"))
    assert not owner.sent(request("127.0.0.1"))
    assert LocalToken().token != owner.token


@pytest.mark.skipif(os.name != "posix", reason="pipes with a name")
def test_odd_files_are_no_announcements(state: Path) -> None:
    here = announcement()
    publish(here)
    folder = state / "pegboard" / "gateways"
    os.mkfifo(folder / "1.json", 0o600)
    (folder / "2.json").mkdir(0o700)
    (folder / "3.json").symlink_to("/dev/zero")
    odd = [
        b'{"pid": 1' + b"0" * 30,
        msgspec.json.encode(replace(here, pid=10**18)),
        msgspec.json.encode(here).replace(str(here.pid).encode(), b"1" + b"0" * 30),
        msgspec.json.encode(replace(here, pid=-1)),
        msgspec.json.encode(replace(here, address="http://127.0.0.1:99999999")),
        msgspec.json.encode(replace(here, address="http://[::1")),
        b"[" * 50_000,
    ]
    for number, content in enumerate(odd, 4):
        (folder / f"{number}.json").write_bytes(content)
        (folder / f"{number}.json").chmod(0o600)
    assert list(running_instances()) == [here]


async def test_a_process_is_announced_although_its_file_is_away_just_then(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text('{"mcpServers": {}}', encoding="utf-8")
    async with Hub.open(path) as hub, anyio.create_task_group() as tasks:
        path.unlink()
        shutdown, announced = Shutdown(), anyio.Event()
        announcing = partial(announce, port=5, shutdown=shutdown, announced=announced)
        tasks.start_soon(announcing, LocalToken(), ServeOptions(config=str(path)), hub)
        with anyio.fail_after(5):
            await announced.wait()
        (found,) = await anyio.to_thread.run_sync(lambda: list(running_instances()))
        assert found.config == str(path)
        shutdown.request()
