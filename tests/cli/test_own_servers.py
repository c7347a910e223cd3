"""`pegboard add`, `remove`, `enable`, `disable` and `list`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pegboard.config import load_servers, user_config_file
from pegboard.config.files.servers_file import ServersFile
from pegboard.server.process.instance_discovery import RunningInstance, identity_of, publish
from tests.cli.own_machine import ENTRY, Run, at_a_terminal, in_process
from tests.config.own_folders import FakeKeyring, use_own_folders

FILE = """{
  // my servers
  "mcpServers": {
    "time": {"command": "uvx", "args": ["mcp-server-time"]}, // the clock
    "x-unknown": {"command": "x", "theirs": [1, 2]},
  },
  "gateway": {"page_size": 10}
}
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return use_own_folders(tmp_path, monkeypatch)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return in_process(capsys)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mcp.json"
    path.write_text(FILE, "utf-8")
    return path


def test_a_first_server_makes_the_file_and_the_command_is_kept_as_typed(run: Run) -> None:
    said = run("add", "time", "--", "uvx", "mcp-server-time", "--debug", "--json")
    assert (said.code, said.out) == (0, f"Added 'time' to {user_config_file()} (a new file).\n")
    content = json.loads(user_config_file().read_bytes())
    args = ["mcp-server-time", "--debug", "--json"]
    assert content == {"mcpServers": {"time": {"command": "uvx", "args": args}}}


def test_a_demo_server_is_added_by_the_place_of_pegboard_and_answers(run: Run) -> None:
    assert run("add", "clock", "--", "pegboard", "demo-server", "clock").code == 0
    entry = json.loads(user_config_file().read_bytes())["mcpServers"]["clock"]
    assert Path(entry["command"]).is_absolute()
    assert entry["args"][-2:] == ["demo-server", "clock"]
    said = run("call", "mcp_clock_day_of_week", "day=2026-07-28")
    assert (said.code, said.out.strip()) == (0, "Tuesday")


def test_a_program_of_this_folder_is_found_from_anywhere(run: Run, tmp_path: Path) -> None:
    (tmp_path / "server.py").write_bytes(b"")
    (tmp_path / "sub").mkdir()
    assert run("add", "a", "--", "./run.sh").code == 0
    assert run("add", "f", "--", "bin/run").code == 0
    assert run("add", "g", "--", "npx", "-y", "fs", ".").code == 0
    assert run("add", "h", "--", "npx", "-y", "fs", "--root=sub").code == 0
    assert run("add", "b", "--", "python", "server.py").code == 0
    assert run("add", "c", "--cwd", "sub", "--", "python", "main.py").code == 0
    assert run("add", "d", "--cwd", "~/d", "--", "python", "main.py").code == 0
    assert run("add", "e", "--", "uvx", "mcp-server-time").code == 0
    assert json.loads(user_config_file().read_bytes())["mcpServers"] == {
        "a": {"command": str(tmp_path / "run.sh")},
        "f": {"command": str(tmp_path / "bin/run")},
        "g": {"command": "npx", "args": ["-y", "fs", "."], "cwd": str(tmp_path)},
        "h": {"command": "npx", "args": ["-y", "fs", "--root=sub"], "cwd": str(tmp_path)},
        "b": {"command": "python", "args": ["server.py"], "cwd": str(tmp_path)},
        "c": {"command": "python", "args": ["main.py"], "cwd": str(tmp_path / "sub")},
        "d": {"command": "python", "args": ["main.py"], "cwd": "~/d"},
        "e": {"command": "uvx", "args": ["mcp-server-time"]},
    }


def test_commands_that_change_files_wait_for_each_other(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pegboard.cli.main", "add"]
    config = tmp_path / "own.json"
    config.write_text('{"mcpServers": {}}', "utf-8")
    running = [
        subprocess.Popen([*command, f"s{it}", "--config", str(config), "--", "true"])
        for it in range(8)
    ]
    assert [process.wait() for process in running] == [0] * 8
    assert len(json.loads(config.read_bytes())["mcpServers"]) == 8


def test_commands_of_other_homes_wait_where_the_file_is_the_same(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pegboard.cli.main", "add"]
    config = tmp_path / "own.json"
    config.write_text('{"mcpServers": {}}', "utf-8")
    running: list[subprocess.Popen[bytes]] = []
    for it in range(8):
        own = tmp_path / f"home-{it}"
        own.mkdir()
        environ = {**os.environ, "HOME": str(own), "TMPDIR": str(own)}
        words = [f"s{it}", "--config", str(config), "--", "true"]
        running.append(subprocess.Popen([*command, *words], env=environ))
    assert [process.wait() for process in running] == [0] * 8
    assert len(json.loads(config.read_bytes())["mcpServers"]) == 8
    assert [it.name for it in tmp_path.iterdir() if it.is_file()] == ["own.json"]


def test_half_a_character_is_spelled_in_json(run: Run, tmp_path: Path) -> None:
    (tmp_path / "own.json").write_bytes(b'{"mcpServers": {"a\\ud800": {"command": "x"}}}')
    said = run("list", "--json", "--config", "own.json")
    assert said.code == 0
    assert json.loads(said.out)[0]["name"] == "a\ud800"


def test_everything_that_a_person_wrote_stays(run: Run, file: Path) -> None:
    assert run("add", "docs", "https://docs.example.com/mcp", "--lazy").code == 0
    added = file.read_text("utf-8")
    entry = '"docs": {\n      "url": "https://docs.example.com/mcp",\n      "lazy": true\n    },'
    assert added.replace(f"\n    {entry}", "") == FILE
    assert run("disable", "time").out == "Server 'time' is now disabled.\n"
    assert '"args": ["mcp-server-time"], "enabled": false}, // the clock' in file.read_text("utf-8")
    assert run("disable", "time").err == "Server 'time' is already disabled.\n"
    assert run("enable", "time").code == 0
    assert run("remove", "docs").out == f"Removed 'docs' from {file}.\n"
    assert file.read_text("utf-8") == FILE


def test_headers_and_variables_are_written_and_their_secrets_kept_elsewhere(
    run: Run, tmp_path: Path, home: Path
) -> None:
    path = tmp_path / "deep" / "own.json"
    words = ["add", "crm", "https://crm.example.com/mcp", "--config", str(path)]
    words += ["--header", "Authorization: Bearer canary-1234", "--header", "X-Team=pegs"]
    said = run(*words)
    assert said.code == 0
    assert "`headers.Authorization`" in said.err
    text = path.read_text("utf-8")
    assert "canary" not in text
    [server] = load_servers(path, strict=True).servers
    assert server.headers == {"Authorization": "Bearer canary-1234", "X-Team": "pegs"}
    run("add", "gh", "--config", str(path), "--env", "GITHUB_TOKEN=canary-5678", "--", "npx", "gh")
    run("add", "own", "--config", str(path), "--env", "HOME", "--", "npx", "own")
    gh, own = load_servers(path, strict=True).servers[1:]
    assert gh.env == {"GITHUB_TOKEN": "canary-5678"}
    assert own.env == {"HOME": str(home)}
    assert "canary" not in path.read_text("utf-8")
    said = run("remove", "gh", "--config", str(path))
    assert "still stored: ${file:" in said.err


def test_a_secret_that_was_replaced_is_named_and_one_that_is_used_is_not(
    run: Run, file: Path
) -> None:
    add = ["add", "slow", "--force", "--env"]
    assert "still stored" not in run(*add, "X_TOKEN=canary-1234", "--", "sh").err
    assert "still stored" not in run(*add, "X_TOKEN=canary-1234", "--", "sh", "-x").err
    said = run(*add, "X_TOKEN=canary-5678", "--", "sh")
    assert said.err.count("still stored: ${file:") == 1
    assert "slow.X_TOKEN}" in said.err.partition("still stored")[2]
    # Another server has the same one.
    entry = json.dumps(ServersFile(file).entries["slow"].value)
    file.write_text(
        file.read_text("utf-8").replace('"time":', f'"twin": {entry}, "time":'), "utf-8"
    )
    assert "still stored" not in run("remove", "slow").err
    assert "slow.X_TOKEN.2}" in run("remove", "twin").err


def test_a_gateway_that_serves_the_file_need_not_be_told(run: Run, file: Path) -> None:
    assert "reloads this file" not in run("disable", "time").err
    machine, started = identity_of(os.getpid())
    announced = RunningInstance(
        pid=os.getpid(),
        started=started,
        machine=machine,
        address="http://127.0.0.1:8765",
        config=str(file.resolve()),
        store=None,
        token="none",
    )
    publish(announced)
    assert "reloads this file by itself" in run("enable", "time").err
    assert "reloads this file" not in run("add", "a", "--config", "other.json", "--", "sh").err


def test_a_variable_that_is_not_set_is_told(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLACK_TOKEN", raising=False)
    words = ["add", "needy", "--force", "--env", "SLACK_TOKEN", "--env", "HOME", "--", "sh"]
    assert run(*words).err == (
        "The environment variable SLACK_TOKEN is not set here; the server needs it to start.\n"
    )
    monkeypatch.setenv("SLACK_TOKEN", "xoxb")
    assert run(*words).err == ""


def test_a_keyring_keeps_them_if_there_is_one(
    run: Run, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "keyring", FakeKeyring())
    said = run("add", "a", "--", "a-server", "--api-key", "canary-1234")
    assert "moved to the keyring: ${keyring:a.A_API_KEY}" in said.err
    assert load_servers(file).servers[-1].args == ("--api-key", "canary-1234")


def test_secrets_can_be_left_where_they_are(run: Run, file: Path) -> None:
    run("add", "a", "--keep-secrets", "--", "a-server", "--api-key", "canary-1234")
    assert "canary-1234" in file.read_text("utf-8")
    [row] = [it for it in json.loads(run("list", "--json").out) if it["name"] == "a"]
    assert row["target"] == "a-server --api-key ***"
    assert "plain text" in row["problem"]


def test_a_program_that_is_not_there_is_added_and_told_of(run: Run, home: Path) -> None:
    said = run("add", "a", "--", "no-such-program")
    assert said.code == 0
    assert "There is no program 'no-such-program' on this machine yet" in said.err
    assert "There is no program" not in run("add", "b", "--", "sh").err


def test_a_server_is_replaced_only_if_the_user_says_so(run: Run, file: Path) -> None:
    said = run("add", "time", "--", "other")
    assert said.code == 1
    assert said.err == (
        f"error: {file} already has a server 'time'. Replace it? There is no terminal to ask on; "
        "`--force` answers yes.\n"
    )
    assert file.read_text("utf-8") == FILE
    assert run("add", "time", "--force", "--", "other").code == 0
    assert load_servers(file).servers[0].command == "other"


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 1), ("", 1)])
def test_a_person_is_asked_before_a_server_is_replaced(answer: str, code: int, file: Path) -> None:
    said = at_a_terminal("add", "time", "--", "other", answers=[("Replace it? [y/N]", answer)])
    assert said.code == code
    assert (file.read_text("utf-8") == FILE) is bool(code)


@pytest.mark.parametrize(
    "words",
    [
        ["add"],
        ["add", "a"],
        ["add", "a", "https://x.test", "more"],
        # Without `--`, this option would not reach the program.
        ["add", "a", "npx", "-y", "@scope/server"],
        ["add", "a", "docs.example.com/mcp"],
        ["add", "a", "localhost:8080"],
        ["add", "a", "localhost"],
        ["add", "a", "gateway:8080/mcp"],
        ["add", "a", "192.0.2.1"],
        ["add", "a", "[::1]:8080/mcp"],
        ["add", "a", "[2001:db8::1]"],
        ["add", "a", "//docs.example.com/mcp"],
        ["add", "a", "docs.example.com"],
        ["add", "a", "htp://docs.example.com"],
        ["add", "a", "--env", "1=canary ", "--env", "no name canary", "--", "x"],
        ["add", "a", "--header", "canary", "https://x.test"],
        ["add", "a", "--header", "=canary", "https://x.test"],
    ],
)
def test_what_cannot_be_meant_is_misuse(words: list[str], run: Run, home: Path) -> None:
    assert run(*words).code == 2
    assert list(home.iterdir()) == []


@pytest.mark.parametrize(
    ("word", "offered"),
    [
        ("docs.example.com", "https://docs.example.com"),
        ("//docs.example.com/mcp", "https://docs.example.com/mcp"),
        ("localhost:8080/mcp", "http://localhost:8080/mcp"),
        ("[::1]:8080/mcp", "http://[::1]:8080/mcp"),
    ],
)
def test_the_address_that_was_meant_is_offered(word: str, offered: str, run: Run) -> None:
    assert f"write {offered} instead" in " ".join(run("add", "a", word).err.split())


@pytest.mark.parametrize("word", ["python3.99", "server.py", "my-server.exe", "/opt/no.such/run"])
def test_a_name_with_a_dot_may_be_a_program(word: str, run: Run, file: Path) -> None:
    assert run("add", "a", "--", word).code == 0
    assert json.loads(run("list", "--json").out)[-1]["target"] == word


@pytest.mark.parametrize(
    "words",
    [
        ["add", "a", "http://[canary"],
        ["add", "a", "--type", "carrier-pigeon", "--", "x"],
        ["add", "", "https://x.test"],
        ["add", "a", "--header", "X:canary\u00e9x", "https://x.test"],
    ],
)
def test_what_could_not_be_read_again_is_refused(words: list[str], run: Run, home: Path) -> None:
    said = run(*words)
    assert said.code == 1
    assert said.err.startswith("error: ")
    assert list(home.iterdir()) == []


def test_several_servers_are_disabled_at_once_or_none_of_them(run: Run, file: Path) -> None:
    before = file.read_bytes()
    assert run("disable", "time", "nowhere").code == 3
    assert file.read_bytes() == before
    run("add", "docs", "https://docs.example.com/mcp")
    said = run("disable", "docs", "time", "docs")
    assert said.out == "Server 'docs' is now disabled.\nServer 'time' is now disabled.\n"
    assert run("enable", "time", "docs").code == 0
    assert '"enabled"' not in file.read_text("utf-8")


def test_a_program_without_its_dashes_is_refused_with_the_way_to_write_it(run: Run) -> None:
    said = run("add", "y", "npx", "-y", "foo")
    assert said.code == 2
    assert "`pegboard add NAME -- PROGRAM ARGUMENTS`" in said.err


@pytest.mark.parametrize("command", ["remove", "enable", "disable"])
def test_a_name_that_nobody_has_is_its_own_exit_code(command: str, run: Run, file: Path) -> None:
    said = run(command, "tiem")
    assert (said.code, said.out) == (3, "")
    assert said.err == (
        "error: No server is named 'tiem'; known: 'time', 'x-unknown'. Did you mean 'time'?\n"
    )


def test_servers_are_listed_without_values_of_variables(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "canary-1234")
    content = {
        "a": {"command": "a-server", "args": ["--port", "${PORT}", "${TOKEN}"]},
        "b": {"url": "https://u:canary@b.test/mcp?key=canary", "enabled": False},
        "c": {"command": 5},
        "d": {"command": "d", "args": ["${file:nowhere}", "${keyring:nothing}"]},
    }
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"mcpServers": content}), "utf-8")
    rows = json.loads(run("list", "--json", "--config", str(path)).out)
    assert [(it["name"], it["state"], it["type"], it["target"]) for it in rows] == [
        ("a", "enabled", "stdio", "a-server --port ${PORT} ${TOKEN}"),
        ("b", "disabled", "streamable_http", "https://b.test/mcp"),
        ("c", "unusable", None, None),
        ("d", "enabled", "stdio", "d ${file:nowhere} ${keyring:nothing}"),
    ]
    assert "invalid `command`" in rows[2]["problem"]
    said = run("list", "--config", str(path))
    assert said.out.splitlines()[0].split() == ["SERVER", "STATE", "TYPE", "WHERE"]
    assert "c: Server 'c' has an invalid `command`" in said.err


def test_an_address_with_variables_in_it_is_listed_as_it_is_written(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADDRESS", "https://canary.test/mcp")
    monkeypatch.setenv("PORT", "8080")
    urls = ["${file:~/a.TOKEN}", "${ADDRESS}", "${ADDRESS}/x", "http://localhost:${PORT}/mcp"]
    content = {f"s{number}": {"url": url} for number, url in enumerate(urls)}
    content["live"] = {"type": "websocket", "url": "${ADDRESS}"}
    content["wrong"] = {"url": "ftp://${PORT}/mcp"}
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"mcpServers": content}), "utf-8")
    rows = json.loads(run("list", "--json", "--config", str(path)).out)
    assert [(it["state"], it["type"], it["target"], it["problem"]) for it in rows[:-1]] == [
        *(("enabled", "streamable_http", url, None) for url in urls),
        ("enabled", "websocket", "${ADDRESS}", None),
    ]
    assert (rows[-1]["state"], rows[-1]["target"]) == ("unusable", None)
    words = ["add", "new", "http://localhost:${PORT}/mcp", "--config", str(path)]
    assert run(*words).code == 0
    assert load_servers(path).servers[-1].url == "http://localhost:8080/mcp"


def test_an_address_that_import_moved_out_of_the_file_is_usable(
    run: Run, home: Path, tmp_path: Path
) -> None:
    (home / ".cursor").mkdir()
    entry = {"url": "https://u:12@x.test/s?key=canary&sig=canary"}
    (home / ".cursor/mcp.json").write_text(json.dumps({"mcpServers": {"x": entry}}), "utf-8")
    assert run("import", "cursor", "--yes", "--config", "own.json").code == 0
    written = json.loads((tmp_path / "own.json").read_bytes())["mcpServers"]["x"]["url"]
    assert written.startswith("${file:")
    [row] = json.loads(run("list", "--json", "--config", "own.json").out)
    assert (row["state"], row["target"], row["problem"]) == ("enabled", written, None)


def test_the_list_names_the_variables_that_are_not_set(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SET", "canary-1234")
    monkeypatch.delenv("UNSET", raising=False)
    monkeypatch.delenv("ALSO_UNSET", raising=False)
    headers = {"A": "Bearer ${UNSET}", "B": "${ALSO_UNSET}"}
    content = {
        "a": {"url": "https://a.test/mcp", "headers": headers},
        "b": {"command": "b", "args": ["${SET}", "${UNSET:-x}", "${input:i}", "${keyring:k}"]},
        "c": {"command": "c", "env": {"MINE": "1"}, "args": ["${MINE}", "$UNSET"]},
    }
    path = tmp_path / "x.json"
    inputs = [{"id": "i", "default": "1"}]
    path.write_text(json.dumps({"mcpServers": content, "inputs": inputs}), "utf-8")
    a, b, c = json.loads(run("list", "--json", "--config", str(path)).out)
    assert "variable UNSET is not set" in a["problem"]
    assert "variable ALSO_UNSET is not set" in a["problem"]
    assert (a["state"], a["type"], b["problem"]) == ("enabled", "streamable_http", None)
    assert "looks like a variable" in c["problem"]
    said = run("list", "--config", str(path))
    assert "variable UNSET is not set" in said.err
    assert "a: `headers." in said.err


def test_where_there_is_nothing_the_next_step_is_named(run: Run) -> None:
    said = run("list")
    assert (said.code, said.out) == (3, "")
    assert "`pegboard import`" in said.err
    assert json.loads(run("list", "--json").out) == []


def test_a_broken_file_is_left_alone(run: Run, file: Path) -> None:
    file.write_bytes(b'{"mcpServers": {"a": "canary\n')
    for words in (["add", "b", "--", "x"], ["remove", "a"], ["list"], ["enable", "a"]):
        said = run(*words)
        assert said.code == 1
        assert f"{file}:1:" in said.err
    assert file.read_bytes() == b'{"mcpServers": {"a": "canary\n'


def test_the_commands_work_as_a_process_and_need_no_sdk(file: Path) -> None:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*ENTRY, *words],
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )

    assert run("add", "b", "--", "b-server").returncode == 0
    assert run("remove", "nobody").returncode == 3
    assert [it["name"] for it in json.loads(run("list", "--json").stdout)][-1] == "b"
    code = (
        "import sys; from pegboard.cli.main import main; main(['list']); "
        "heavy = {'mcp', 'numpy', 'httpx2', 'tomlkit', 'keyring'} & set(sys.modules); "
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, capture_output=True)


@pytest.mark.skipif(sys.platform != "linux", reason="a limit on the size of files")
def test_a_secret_comes_back_where_the_file_cannot_be_written(tmp_path: Path, home: Path) -> None:
    servers = {f"s{number}": {"command": "x" * 50} for number in range(400)}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}), "utf-8")
    before = (tmp_path / "mcp.json").read_bytes()
    words = " ".join([*ENTRY, "add", "zz", "--", "y", "--token", "CANARYq8Zk3Lm9Xw2Rt"])
    command = ["bash", "-c", f"ulimit -f 8; export PYTHONDONTWRITEBYTECODE=1; {words}"]
    ended = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert (ended.returncode, (tmp_path / "mcp.json").read_bytes()) == (1, before)
    assert [it.name for it in home.rglob("*") if it.is_file()] == ["made-files"]


@pytest.mark.parametrize("command", ["remove", "enable", "disable"])
def test_a_file_that_is_not_there_is_named(command: str, run: Run, tmp_path: Path) -> None:
    gone = tmp_path / "gone.json"
    said = run(command, "time", "--config", str(gone))
    assert said == (3, "", f"error: {gone}: The configuration file does not exist.\n")
    assert not gone.exists()


def test_without_a_file_the_commands_that_make_one_are_named(run: Run) -> None:
    said = run("remove", "time")
    assert said.code == 3
    assert "`pegboard import` imports" in said.err


@pytest.mark.parametrize("words", [["list"], ["remove", "time"], ["enable", "time"], ["import"]])
def test_a_file_without_a_place_for_servers_is_told_and_not_that_it_has_none(
    words: list[str], run: Run, file: Path
) -> None:
    file.write_text("[]", "utf-8")
    code, out, told = run(*words, "--config", str(file))
    assert (code, out) == (1, "")
    assert "The file must be an object with `mcpServers`." in told
