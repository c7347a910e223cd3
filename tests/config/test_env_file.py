import json
from pathlib import Path

import pytest

from pegboard.config import LoadedConfig, load_servers


def load(tmp_path: Path, text: str) -> LoadedConfig:
    path = tmp_path / "mcp.json"
    path.write_text(text, "utf-8")
    return load_servers(path, environ={})


def test_an_env_file_stands_behind_env(tmp_path: Path) -> None:
    (tmp_path / "x.env").write_text(
        "# comment\n\nexport A=1\nB = 'two words' # why\nC=\"a#b\"\nD=x # y\nE=\nF=a=b\n", "utf-8"
    )
    text = '{"servers": {"one": {"command": "x", "envFile": "x.env", "env": {"A": "mine"}}}}'
    (server,) = load(tmp_path, text).servers
    assert server.env == {
        "A": "mine",
        "B": "two words",
        "C": "a#b",
        "D": "x",
        "E": "",
        "F": "a=b",
    }
    (tmp_path / "x.env").write_text("A=1\nsk-secret value\n", "utf-8")
    (problem,) = load(tmp_path, text).problems
    assert "x.env:2: Expected `KEY=VALUE`." in problem.message
    (tmp_path / "x.env").write_bytes(b"A=\xff\n")
    assert "UTF-8" in load(tmp_path, text).problems[0].message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('A="x" # say "hi"', {"A": "x"}),
        ("A='x' # it's", {"A": "x"}),
        ("A=\"it's\" # '", {"A": "it's"}),
        (r'A="say \"hi\"" # "', {"A": 'say "hi"'}),
        (r'A="C:\\dir\x\\"', {"A": "C:\\dir\\x\\"}),
        ('A="C:\\dir\\"\nB=""', {"A": "C:\\dir\\", "B": ""}),
        (r'A="one\ntwo"', {"A": "one\ntwo"}),
        (r"A='one\ntwo'", {"A": r"one\ntwo"}),
        ('A="one\ntwo # 2\n" # three\r\nB=4', {"A": "one\ntwo # 2\n", "B": "4"}),
        ("A='one\ntwo'\nB=4", {"A": "one\ntwo", "B": "4"}),
        ('A="open\nB="x"', {"A": '"open', "B": "x"}),
        ('A={"b": "c"}\nB="{"b": "c"}" # d', {"A": '{"b": "c"}', "B": '{"b": "c"}'}),
        ("A=x\u2028y\x0bz\x85\nB=\u20281", {"A": "x\u2028y\x0bz\x85", "B": "\u20281"}),
        ("A=#x\nB=x#y", {"A": "", "B": "x#y"}),
        ("\r\n  # x\r\n\texport  A = 1 \r\n", {"A": "1"}),
        ("A=", {"A": ""}),
    ],
)
def test_quotes_and_lines_of_an_env_file(
    tmp_path: Path, text: str, expected: dict[str, str]
) -> None:
    (tmp_path / "x.env").write_bytes(text.encode("utf-8"))
    loaded = load(tmp_path, '{"servers": {"one": {"command": "x", "envFile": "x.env"}}}')
    assert [dict(server.env) for server in loaded.servers] == [expected]


def test_a_bad_line_behind_several_lines_of_one_value_has_its_own_number(tmp_path: Path) -> None:
    (tmp_path / "x.env").write_text("A='1\n2\n3'\nhunter2\n", "utf-8")
    loaded = load(tmp_path, '{"servers": {"one": {"command": "x", "envFile": "x.env"}}}')
    assert "x.env:4: Expected `KEY=VALUE`." in loaded.problems[0].message


def test_no_secret_is_read_where_none_is_wanted(tmp_path: Path) -> None:
    (tmp_path / "x.env").write_text("TOKEN=abcdef\n", encoding="utf-8")
    path = tmp_path / "mcp.json"
    env = {"OTHER": "${file:x.env}", "KEPT": "${keyring:it}"}
    there, gone = ({"command": "x", "envFile": it, "env": env} for it in ("x.env", "gone.env"))
    path.write_text(json.dumps({"mcpServers": {"there": there, "gone": gone}}), encoding="utf-8")
    loaded = load_servers(path, reads_secrets=False)
    assert [(it.name, dict(it.env)) for it in loaded.servers] == [("there", env)]
    [problem] = loaded.problems
    assert (problem.server, problem.severity) == ("gone", "error")
