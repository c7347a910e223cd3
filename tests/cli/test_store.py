"""`pegboard store`."""

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from pegboard import Tool
from pegboard.auth import ApiKeys, KeyGrant
from pegboard.cli.main import main
from pegboard.model.principal import OPERATOR
from pegboard.storage import open_store

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(params=["tools.json", "tools.db"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    path = str(tmp_path / request.param)
    with open_store(path) as store:
        store.save_many([Tool(name="one"), Tool(name="two", description="第二")])
        store.namespace("pins").put("one", {"by": "me"})
    return path


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def running(*words: str) -> tuple[int, str, str]:
        code = main(["store", *words])
        said = capsys.readouterr()
        return code, said.out, said.err

    return running


def test_check_and_info_say_what_is_there(url: str, run: Run) -> None:
    code, out, _ = run("check", "--store", url)
    assert (code, out.endswith("is sound: 2 tools.\n")) == (0, True)
    code, out, _ = run("info", "--store", url)
    lines = [line.split() for line in out.splitlines()]
    assert lines[3:] == [
        ["tenant", "default"],
        ["tools", "2"],
        ["used", "0"],
        ["calls", "0"],
        ["other", "values,", "by", "namespace:"],
        ["pins", "1"],
    ]
    found = json.loads(run("info", "--store", url, "--json")[1])
    assert found.pop("bytes") > 0
    assert found == {
        "store": url,
        "kind": "json" if url.endswith(".json") else "sqlite",
        "tenant": "default",
        "tools": 2,
        "used": 0,
        "calls": 0,
        "values": {"pins": 1},
    }


def test_rooms_stand_apart_below_each_other_and_say_what_they_are(url: str, run: Run) -> None:
    with open_store(url) as store:
        for room in ("calls", "failed-starts", "leases"):
            store.namespace(room).put("one", {})
    lines = run("info", "--store", url)[1].splitlines()
    rooms = lines[lines.index("other values, by namespace:") + 1 :]
    assert [line.split()[0] for line in lines].count("calls") == 2
    assert {line[2:] for line in rooms} == {
        "calls          1  the latest calls, one by one",
        "failed-starts  1  servers that did not start when a command needed them",
        "leases         1  jobs that only one process does at a time",
        "pins           1",
    }
    assert all(line.startswith("  ") for line in rooms)


def test_everything_moves_to_another_store(url: str, tmp_path: Path, run: Run) -> None:
    target = str(tmp_path / "copy.db")
    code, out, _ = run("migrate", target, "--store", url)
    assert code == 0
    assert "Copied 2 tools, the usage of 0 tools, and 1 other value of tenant 'default' to" in out
    with open_store(target) as store:
        assert sorted(it.tool.name for it in store.load_all()) == ["one", "two"]
        assert store.namespace("pins").items()["one"].value == {"by": "me"}


def test_keys_and_their_tenants_move_too(url: str, tmp_path: Path, run: Run) -> None:
    with open_store(url, tenant="red") as store:
        store.save(Tool(name="of_red"))
    with open_store(url, tenant=OPERATOR) as store, ApiKeys(store) as keys:
        secret = keys.create(KeyGrant(tenant="red")).secret
    target, archive = str(tmp_path / "copy.db"), str(tmp_path / "all.json.archive")
    code, out, _ = run("migrate", target, "--store", url)
    assert (code, len(out.splitlines())) == (0, 3)
    assert run("export", archive, "--store", target)[0] == 0
    back = str(tmp_path / "back.db")
    assert run("import", archive, "--store", back)[0] == 0
    with open_store(back, tenant="red") as store:
        assert [it.tool.name for it in store.load_all()] == ["of_red"]
    with open_store(back, tenant=OPERATOR) as store, ApiKeys(store) as keys:
        assert [it.tenant for it in keys.list()] == ["red"]
    assert secret not in Path(archive).read_text("utf-8")
    only = str(tmp_path / "only.db")
    assert len(run("migrate", only, "--store", url, "--tenant", "red")[1].splitlines()) == 1


def test_an_export_is_one_private_file_and_is_not_overwritten(
    url: str, tmp_path: Path, run: Run
) -> None:
    file = tmp_path / "out" / "all.json"
    file.parent.mkdir()
    assert run("export", str(file), "--store", url)[0] == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [it.name for it in file.parent.iterdir()] == ["all.json"]
    before = file.read_bytes()
    code, _, told = run("export", str(file), "--store", url)
    assert (code, "--force" in told, file.read_bytes()) == (2, True, before)
    assert run("export", str(file), "--store", url, "--force")[0] == 0
    assert json.loads(run("export", "-", "--store", url)[1]) == json.loads(before)


def test_an_export_onto_a_file_that_others_could_read_is_private(
    url: str, tmp_path: Path, run: Run
) -> None:
    file = tmp_path / "all.archive"
    file.write_bytes(b"")
    file.chmod(0o644)
    assert run("export", str(file), "--store", url, "--force")[0] == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("room", ["api_keys", "audit", "calls", "daily-usage", "servers"])
def test_a_damaged_archive_is_refused_before_anything_is_written(
    room: str, url: str, tmp_path: Path, run: Run
) -> None:
    with open_store(url, tenant=OPERATOR) as store, ApiKeys(store) as keys:
        keys.create(KeyGrant(name="mine"))
    file = tmp_path / "all.archive"
    run("export", str(file), "--store", url)
    archive = json.loads(file.read_text("utf-8"))
    mine = next(it for it in archive["tenants"] if it["tenant"] == OPERATOR)
    mine["values"].setdefault(room, {"any": 1})
    mine["values"][room] = {key: {"junk": 1, "tools": 1} for key in mine["values"][room]}
    file.write_text(json.dumps(archive), "utf-8")
    target = tmp_path / "new.db"
    code, _, told = run("import", str(file), "--store", str(target))
    assert (code, "nothing was written" in told, f"{room}/" in told) == (1, True, True)
    assert not target.exists()
    assert run("import", str(file), "--store", url)[0] == 1
    with open_store(url, tenant=OPERATOR) as store, ApiKeys(store) as keys:
        assert [it.name for it in keys.list()] == ["mine"]


def test_a_damaged_tool_in_an_archive_is_named(url: str, tmp_path: Path, run: Run) -> None:
    file = tmp_path / "all.archive"
    run("export", str(file), "--store", url)
    archive = json.loads(file.read_text("utf-8"))
    archive["tenants"][0]["tools"][1]["tool"] = {"junk": 1}
    file.write_text(json.dumps(archive), "utf-8")
    code, _, told = run("import", str(file), "--store", str(tmp_path / "new.db"))
    assert (code, "tool 2 of 'default'" in told) == (1, True)


def test_what_is_no_archive_is_said_plainly(tmp_path: Path, run: Run) -> None:
    target = tmp_path / "new.db"
    for text in ("", "{", "[]", '{"format": "pegboard-archive", "version": 2, "tenants": []}'):
        file = tmp_path / "it.json"
        file.write_text(text, encoding="utf-8")
        code, _, told = run("import", str(file), "--store", str(target))
        assert (code, "is not an archive of Pegboard" in told) == (1, True)
    assert run("import", str(tmp_path / "missing"), "--store", str(target))[0] == 3
    assert not target.exists()


def test_a_store_is_not_copied_to_itself(url: str, run: Run) -> None:
    path = Path(url)
    scheme = "json" if path.suffix == ".json" else "sqlite"
    same = path.parent / "." / ".." / path.parent.name / path.name
    for target in (url, str(same), f"{scheme}://{path}"):
        code, _, told = run("migrate", target, "--store", url)
        assert (code, "the same store" in told) == (2, True)


def test_a_damaged_file_is_reported_with_the_command_that_recovers_it(
    url: str, tmp_path: Path, run: Run
) -> None:
    path = Path(url)
    good = path.read_bytes()
    damaged = good[: len(good) // 2]
    path.write_bytes(damaged)
    code, _, told = run("check", "--store", url)
    assert code == 1
    assert f"pegboard store recover --store {url}" in told
    assert path.read_bytes() == damaged
    code, out, _ = run("recover", "--store", url)
    assert (code, "Kept" in out) == (0, True)
    assert any(it.read_bytes() == damaged for it in tmp_path.iterdir() if "damaged" in it.name)
    assert run("check", "--store", url)[0] == 0


def test_what_cannot_be_done_is_said_in_a_sentence(run: Run) -> None:
    code, _, told = run("check", "--store", "tools.txt")
    assert (code, "does not say what kind" in told) == (2, True)
    code, _, told = run("recover", "--store", "postgresql://me:secret@host/db")
    assert (code, "backup" in told, "secret" in told) == (1, True, False)


def test_what_is_not_there_is_no_empty_store(tmp_path: Path, run: Run) -> None:
    (tmp_path / "typo2.db").touch()
    (tmp_path / "typo.err").write_text("a neighbour", encoding="utf-8")
    for name in ("typo.db", "typo.json", "no/such/typo.db", "typo2.db"):
        place = str(tmp_path / name)
        for words in (["check"], ["info"], ["migrate", str(tmp_path / "x.db")], ["export", "-"]):
            code, out, told = run(*words, "--store", place)
            assert (code, out, "There is nothing in" in told) == (3, "", True)
    assert run("recover", "--store", str(tmp_path / "typo.db"))[0] == 1
    assert sorted(it.name for it in tmp_path.iterdir()) == ["typo.err", "typo2.db"]
    assert (tmp_path / "typo2.db").stat().st_size == 0


def test_a_sound_store_is_left_alone(url: str, run: Run) -> None:
    before = Path(url).read_bytes()
    code, out, _ = run("recover", "--store", url)
    assert (code, "Nothing is damaged" in out) == (0, True)
    assert Path(url).read_bytes() == before


@pytest.mark.skipif(os.name != "posix", reason="links and pipes of POSIX")
@pytest.mark.parametrize("suffix", [".db", ".json"])
@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("loop", "links form a loop"),
        ("folder", "is a folder"),
        ("pipe", "a pipe or a device"),
        ("file/within", "a file, not a folder"),
        ("x" * 300, "too long"),
    ],
)
def test_where_no_store_can_be_every_command_says_so_and_changes_nothing(
    place: str, reason: str, suffix: str, tmp_path: Path, run: Run
) -> None:
    (tmp_path / f"loop{suffix}").symlink_to(tmp_path / f"back{suffix}")
    (tmp_path / f"back{suffix}").symlink_to(tmp_path / f"loop{suffix}")
    (tmp_path / f"folder{suffix}").mkdir()
    os.mkfifo(tmp_path / f"pipe{suffix}")
    (tmp_path / "file").write_text("a neighbour", encoding="utf-8")
    before = {it.name: it.lstat().st_mode for it in tmp_path.iterdir()}
    store = str(tmp_path / f"{place}{suffix}")
    for words in (["info"], ["check"], ["recover"], ["export", "-"]):
        code, out, told = run(*words, "--store", store)
        assert (code, out, reason in told, told.count("\n")) == (1, "", True, 1)
    code = main(["keys", "create", "--store", store])
    assert code == 1
    assert {it.name: it.lstat().st_mode for it in tmp_path.iterdir()} == before


@pytest.mark.skipif(os.name != "posix", reason="pipes of POSIX")
def test_an_export_replaces_nothing_but_a_file(url: str, tmp_path: Path, run: Run) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    code, _, told = run("export", str(pipe), "--force", "--store", url)
    assert (code, "a pipe or a device" in told, pipe.is_fifo()) == (2, True, True)


def test_a_target_of_an_unknown_kind_is_misuse(url: str, run: Run) -> None:
    code, out, told = run("migrate", "mysql://x", "--store", url)
    assert (code, out) == (2, "")
    assert "No installed package opens `mysql:` stores" in told
    assert "bug in Pegboard" not in told
