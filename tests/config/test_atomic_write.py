"""A file is the old one or the new one."""

import os
import stat
from pathlib import Path

import pytest

from pegboard.config.atomic_write import new_file, read_file, replace_file, write_file
from pegboard.errors import ConfigError


@pytest.fixture(autouse=True)
def no_blocking_calls() -> None:
    """Nothing else runs beside it."""


def test_a_new_file_is_for_its_owner_and_so_are_its_folders(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "mcp.json"
    assert read_file(path) is None
    write_file(path, b"{}", instead_of=None)
    assert read_file(path) == b"{}"
    if os.name == "posix":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [it.name for it in path.parent.iterdir()] == ["mcp.json"]


@pytest.mark.skipif(os.name != "posix", reason="pipes of POSIX")
def test_a_pipe_or_a_device_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    os.mkfifo(path)
    with pytest.raises(ConfigError, match="not a file"):
        write_file(path, b"{}", instead_of=b"")
    assert [(it.name, it.is_fifo()) for it in tmp_path.iterdir()] == [("mcp.json", True)]


def test_a_file_that_somebody_made_read_only_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "own.json"
    path.write_bytes(b"1")
    path.chmod(0o444)
    with pytest.raises(ConfigError, match="read-only"):
        write_file(path, b"2", instead_of=b"1")
    assert path.read_bytes() == b"1"
    assert [it.name for it in tmp_path.iterdir()] == ["own.json"]


@pytest.mark.skipif(os.name != "posix", reason="modes and links of POSIX")
def test_mode_and_links_stay(tmp_path: Path) -> None:
    target, link = tmp_path / "dotfiles" / "real.json", tmp_path / "link.json"
    target.parent.mkdir()
    target.write_bytes(b"old")
    target.chmod(0o640)
    link.symlink_to(target)
    write_file(link, b"new", instead_of=b"old")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


@pytest.mark.parametrize("believed", [b"older", None])
def test_what_somebody_else_wrote_is_not_overwritten(
    believed: bytes | None, tmp_path: Path
) -> None:
    path = tmp_path / "mcp.json"
    path.write_bytes(b"theirs")
    with pytest.raises(ConfigError, match="Another program"):
        write_file(path, b"ours", instead_of=believed)
    assert path.read_bytes() == b"theirs"
    assert len(list(tmp_path.iterdir())) == 1


def test_what_cannot_be_read_or_written_is_said_in_words(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_file(tmp_path)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ConfigError, match="cannot be written"):
        write_file(tmp_path / "file" / "mcp.json", b"", instead_of=None)


def test_what_a_killed_command_left_goes_with_the_next_write_of_that_file(tmp_path: Path) -> None:
    left = tmp_path / ".mcp.json.ab12_xyz.tmp"
    others = [
        ".mcp.json.ab12_xy.tmp",
        ".mcp.json.AB12_XYZ.tmp",
        ".mcp.json.bak.ab12_xyz.tmp",
        ".other.json.ab12_xyz.tmp",
        "mcp.json.ab12_xyz.tmp",
    ]
    for path in (left, *(tmp_path / it for it in others)):
        path.write_bytes(b"canary")
        os.utime(path, (0, 0))
    (tmp_path / ".mcp.json.written_.tmp").write_bytes(b"a process writes this just now")
    (tmp_path / ".mcp.json.a_folder.tmp").mkdir()
    os.utime(tmp_path / ".mcp.json.a_folder.tmp", (0, 0))
    stays = {it.name for it in tmp_path.iterdir()} - {left.name}
    write_file(tmp_path / "mcp.json", b"{}", instead_of=None)
    assert {it.name for it in tmp_path.iterdir()} == stays | {"mcp.json"}


@pytest.mark.skipif(os.name != "posix", reason="links of POSIX")
def test_a_link_that_looks_like_a_leftover_stays_and_so_does_what_it_leads_to(
    tmp_path: Path,
) -> None:
    target, link = tmp_path / "mine", tmp_path / ".mcp.json.ab12_xyz.tmp"
    target.write_bytes(b"mine")
    link.symlink_to(target)
    os.utime(link, (0, 0), follow_symlinks=False)
    write_file(tmp_path / "mcp.json", b"{}", instead_of=None)
    assert link.is_symlink()
    assert target.read_bytes() == b"mine"


@pytest.mark.skipif(os.name != "posix", reason="modes and links of POSIX")
@pytest.mark.parametrize(("keeps_mode", "mode"), [(True, 0o644), (False, 0o600)])
def test_a_replaced_file_keeps_its_mode_or_is_for_its_owner(
    tmp_path: Path, *, keeps_mode: bool, mode: int
) -> None:
    target, link = tmp_path / "real.json", tmp_path / "link.json"
    target.write_bytes(b"old")
    target.chmod(0o644)
    link.symlink_to(target)
    replace_file(link, b"new", keeps_mode=keeps_mode)
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert stat.S_IMODE(target.stat().st_mode) == mode
    assert sorted(it.name for it in tmp_path.iterdir()) == ["link.json", "real.json"]


def test_a_new_file_that_is_not_renamed_leaves_the_old_one_and_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "tools.json"
    path.write_bytes(b"old")
    with new_file(path, b"new") as temporary:
        assert (path.read_bytes(), temporary.read_bytes()) == (b"old", b"new")
    assert path.read_bytes() == b"old"
    assert [it.name for it in tmp_path.iterdir()] == ["tools.json"]
