"""`pegboard keys`."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pegboard.auth import ApiKeys, KeyGrant
from pegboard.cli.main import main
from pegboard.cli.terminal.durations import shown
from pegboard.model.principal import OPERATOR
from pegboard.observe import Audit
from pegboard.storage import open_store

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(params=["keys.db", "keys.json"])
def store(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    return str(tmp_path / request.param)


@pytest.fixture
def run(store: str, capsys: pytest.CaptureFixture[str]) -> Run:
    def running(*words: str) -> tuple[int, str, str]:
        code = main(["keys", *words, "--store", store])
        said = capsys.readouterr()
        return code, said.out, said.err

    return running


async def test_a_key_is_made_used_listed_rotated_and_revoked(run: Run, store: str) -> None:
    code, secret, told = run("create", "--name", "ci", "--tenant", "team", "--scope", "read")
    assert (code, told.count("shown only once")) == (0, 1)
    assert re.fullmatch(r"pb_[a-z0-9]{12}_[0-9a-f]{64}\n", secret)
    with open_store(store, tenant=OPERATOR) as opened, ApiKeys(opened) as keys:
        who = await keys.authenticate(secret.strip())
    assert (who.tenant, who.scopes) == ("team", {"read"})
    key = secret.split("_")[1]

    code, listed, _ = run("list")
    assert code == 0
    assert key in listed
    assert "valid" in listed
    assert secret.strip() not in listed

    code, rotated, _ = run("rotate", key, "--overlap", "1h")
    assert rotated.startswith(f"pb_{key}_")
    assert rotated != secret
    assert run("revoke", key) == (0, f"Revoked: {key}\n", "")
    assert "revoked" in run("list")[1]
    with open_store(store, tenant=OPERATOR) as opened:
        acts = [(it.action, it.target) for it in Audit(opened).records()]
    assert acts == [("keys.revoke", key), ("keys.rotate", key), ("keys.create", key)]


def test_the_limits_of_keys_are_listed_where_a_key_has_some(run: Run) -> None:
    run("create", "--name", "free")
    assert "LIMITS" not in run("list")[1]
    run("create", "--calls-per-minute", "60", "--concurrent-calls", "4", "--surface", "search")
    run("create", "--concurrent-calls", "2")
    listed = run("list")[1]
    assert "LIMITS" in listed
    assert "60 a minute, 4 at once, sees search" in listed
    assert "2 at once" in listed.replace("4 at once", "")


def test_everything_can_be_said_and_comes_back_as_json(run: Run) -> None:
    words = "create --json --name x --scope call --scope register --scope call --server git* "
    words += "--server mail --tool git_* --expires 90d --calls-per-minute 60 --concurrent-calls 4"
    code, out, told = run(*words.split())
    made = json.loads(out)
    assert (code, told) == (0, "")
    secret = made.pop("secret")
    expires = datetime.fromisoformat(made["expires"]).timestamp()
    assert 89 * 86_400 < expires - time.time() <= 90 * 86_400
    [listed] = json.loads(run("list", "--json", "--tenant", "default")[1])
    assert listed == made
    assert made["scopes"] == ["call", "register"]
    assert made["servers"] == ["git*", "mail"]
    assert (made["calls_per_minute"], made["concurrent_calls"]) == (60, 4)
    assert secret not in json.dumps(listed)
    assert run("list", "--json", "--tenant", "other")[1] == "[]\n"
    assert json.loads(run("rotate", listed["id"], "--json")[1])["secret"] != secret
    [revoked] = json.loads(run("revoke", listed["id"], "--json")[1])
    assert revoked["revoked"] is not None


def test_it_is_said_that_the_gateway_requires_no_keys_yet(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "mcp.json"
    file.write_text('{"mcpServers": {}}', encoding="utf-8")
    monkeypatch.setenv("PEGBOARD_CONFIG", str(file))
    advice = "`PEGBOARD_AUTH=keys pegboard serve`"
    assert advice in run("create")[2].splitlines()[-1]
    assert run("create", "--json")[2] == ""
    monkeypatch.setenv("PEGBOARD_AUTH", "keys")
    assert advice not in run("create")[2]
    monkeypatch.delenv("PEGBOARD_AUTH")
    file.write_text('{"gateway": {"auth": {"keys": true}}}', encoding="utf-8")
    assert advice not in run("create")[2]
    # The key is made whatever the file is like.
    file.write_text("{", encoding="utf-8")
    assert run("create")[0] == 0


def test_where_there_are_no_keys_it_says_how_to_make_one(run: Run) -> None:
    code, out, told = run("list")
    assert (code, out) == (0, "")
    assert "pegboard keys create" in told


@pytest.mark.parametrize(
    ("verb", "code"), [(["list"], 0), (["revoke", "x"], 3), (["rotate", "x"], 3)]
)
def test_looking_for_keys_makes_no_store(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: list[str], code: int
) -> None:
    path = tmp_path / "wrong" / "keys.db"
    assert main(["keys", *verb, "--store", str(path)]) == code
    assert str(path) in capsys.readouterr().err
    assert not path.parent.exists()


@pytest.mark.skipif(os.name == "nt", reason="there, a pipe breaks in other ways")
def test_whoever_has_read_enough_hears_of_no_error(store: str) -> None:
    main(["keys", "create", "--store", store])
    command = [sys.executable, "-m", "pegboard.cli.main", "keys", "list", "--store", store]
    reader, writer = os.pipe()
    os.close(reader)
    try:
        run = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(writer)
    assert (run.returncode, run.stderr) == (1, b"")


@pytest.mark.parametrize(
    "words",
    [
        ["create", "--tenant", "pegboard"],
        ["create", "--tenant", ""],
        ["create", "--expires", "2020-01-01"],
        ["create", "--calls-per-minute", "0"],
        ["create", "--name", "a\nb"],
    ],
)
def test_what_makes_no_sense_is_said_in_one_line(run: Run, words: list[str]) -> None:
    code, out, told = run(*words)
    assert (code, out) == (2, "")
    assert re.fullmatch(r"error: .*\.\n", told)


@pytest.mark.parametrize("verb", ["revoke", "rotate"])
def test_a_key_that_there_is_not_is_said_plainly(run: Run, verb: str) -> None:
    code, out, told = run(verb, "nobody")
    assert (code, out) == (3, "")
    assert "No API key has the id 'nobody'" in told


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_of_several_keys_those_that_there_are_are_revoked_and_the_rest_is_named(
    run: Run, form: list[str], order: int
) -> None:
    good = run("create")[1].split("_")[1]
    code, out, told = run("revoke", *[good, "nope"][::order], *form)
    assert (code, "'nope'" in told, good in told) == (3, True, False)
    assert [it["id"] for it in json.loads(out)] == [good] if form else out == f"Revoked: {good}\n"
    [listed] = json.loads(run("list", "--json")[1])
    assert listed["revoked"] is not None


def test_a_key_that_was_revoked_gets_no_new_secret_and_it_is_said_what_to_do(run: Run) -> None:
    key = run("create")[1].split("_")[1]
    run("revoke", key)
    code, out, told = run("rotate", key)
    assert (code, out) == (1, "")
    assert f"{key!r} is no longer valid" in told
    assert "`pegboard keys create`" in told


@pytest.mark.skipif(sys.platform != "linux", reason="redirections and /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("redirection", [">&-", ">/dev/full", "--json >/dev/full", "--json >&-"])
async def test_a_secret_that_nobody_could_see_opens_nothing(
    store: str, run: Run, redirection: str, unbuffered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)

    def lose(words: str) -> str:
        entry = f"{sys.executable} -m pegboard.cli.main keys {words} --store {store}"
        shell = ["bash", "-c", f"{entry} {redirection}"]
        ended = subprocess.run(shell, stderr=subprocess.PIPE, encoding="utf-8", check=False)
        assert ended.returncode == 1
        return ended.stderr.splitlines()[-1]

    assert lose("create").startswith("error: The secret cannot be written: ")
    assert run("list", "--json")[1] == "[]\n"
    secret = run("create")[1].strip()
    assert lose(f"rotate {secret.split('_')[1]}").endswith("No key was changed.")
    with open_store(store, tenant=OPERATOR) as opened, ApiKeys(opened) as keys:
        assert (await keys.authenticate(secret)).tenant == "default"
        assert len(opened.namespace("api_keys").items()) == 1
        acts = [it.action for it in Audit(opened).records()]
    assert acts == ["keys.create"]


@pytest.mark.skipif(os.name != "posix", reason="signals and pipes of POSIX")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_process_that_is_ended_before_the_secret_is_seen_leaves_no_key(
    store: str, run: Run, number: signal.Signals
) -> None:
    secret = run("create")[1].strip()
    with open_store(store, tenant=OPERATOR) as opened:
        kept = {key: it.value for key, it in opened.namespace("api_keys").items().items()}
    for words in (["create"], ["rotate", secret.split("_")[1]]):
        reading, full = os.pipe()
        os.set_blocking(full, False)
        with suppress(BlockingIOError):
            while os.write(full, b" " * 512):
                pass
        # The next one who writes waits for a reader that never comes.
        os.set_blocking(full, True)
        command = [sys.executable, "-m", "pegboard.cli.main", "keys", *words, "--store", store]
        with subprocess.Popen(command, stdout=full, stderr=subprocess.PIPE) as started:
            assert started.stderr is not None
            assert b"shown only once" in started.stderr.readline()
            started.send_signal(number)
            assert started.wait(30) == -number
        os.close(full)
        os.close(reading)
        with open_store(store, tenant=OPERATOR) as opened:
            found = opened.namespace("api_keys").items()
        assert {key: it.value for key, it in found.items()} == kept


@pytest.mark.parametrize(
    "words",
    [
        ["create", "--scope", "write"],
        ["create", "--expires", "soon"],
        ["create", "--expires", "999999w"],
        ["rotate"],
        [],
    ],
)
def test_a_misused_command_explains_itself(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["keys", *words]) == 2
    said = capsys.readouterr()
    assert "Usage: pegboard keys" in said.err
    assert said.out == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2100-01-31", "2100-01-31T00:00:00Z"),
        ("2100-01-31T12:00:00+02:00", "2100-01-31T10:00:00Z"),
    ],
)
def test_a_date_is_a_moment_too(run: Run, text: str, expected: str) -> None:
    assert json.loads(run("create", "--json", "--expires", text)[1])["expires"] == expected


def test_an_expiry_that_no_calendar_has_does_not_hide_the_other_keys(run: Run, store: str) -> None:
    run("create", "--name", "sound")
    with open_store(store, tenant=OPERATOR) as opened, ApiKeys(opened) as keys:
        keys.create(KeyGrant(name="for ever", scopes=("read",), expires=1e15))
    code, out, _ = run("list")
    assert code == 0
    assert "sound" in out
    assert "1000000000000000 s since 1970" in out


def test_a_moment_is_short_where_a_person_looks_and_never_ambiguous(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = datetime.now(UTC)
    this_year = now.replace(month=now.month % 12 + 1, day=1)
    moments = (now, this_year, now.replace(year=now.year + 1, day=1))
    whole = [shown(it.timestamp(), nothing="") for it in moments]
    assert whole == [f"{it:%Y-%m-%d %H:%M}" for it in moments]
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    short = [shown(it.timestamp(), nothing="") for it in moments]
    assert short == [f"{now:%H:%M}", f"{this_year:%b %d}", f"{moments[2]:%Y-%m-%d}"]
    assert shown(None, nothing="never") == "never"


@pytest.mark.parametrize("verb", [["list"], ["revoke", "x"], ["rotate", "x"]])
def test_a_store_without_a_kind_is_misuse(
    verb: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PEGBOARD_STORE", "/data/pegboard")
    assert main(["keys", *verb]) == 2
    assert "bug in Pegboard" not in capsys.readouterr().err


def test_damaged_keys_are_counted_and_the_others_shown(run: Run, store: str) -> None:
    run("create", "--name", "sound")
    with open_store(store, tenant=OPERATOR) as opened:
        opened.namespace("api_keys").put("abcdefghijkm", {"junk": 1})
    for words in ([], ["--json"]):
        code, out, told = run("list", *words)
        assert (code, "sound" in out) == (1, True)
        assert told == "error: 1 key is damaged and cannot be used: abcdefghijkm.\n"
