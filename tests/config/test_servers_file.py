"""The user's file, changed by a program."""

from pathlib import Path

import pytest

from pegboard.config.files.servers_file import ServersFile, file_to_edit
from pegboard.errors import ConfigError, ServerNotFoundError
from tests.config.own_folders import use_own_folders


@pytest.fixture(autouse=True)
def no_blocking_calls() -> None:
    """Nothing else runs beside it."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "mcp.json"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"servers": {}}', '{"servers": {"a": {"command": "x"}}}'),
        ('{"mcp": {"servers": {}}}', '{"mcp": {"servers": {"a": {"command": "x"}}}}'),
        ('{"context_servers": {}}', '{"context_servers": {"a": {"command": "x"}}}'),
        (
            '{"z": {"command": "y"}}',
            '{"z": {"command": "y"}, "a": {"command": "x"}}',
        ),
        ('{"gateway": {}}', '{"gateway": {}, "mcpServers": {"a": {"command": "x"}}}'),
        ('{"a": {"command": "y"}} // c', '{"a": {"command": "x"}} // c'),
    ],
)
def test_a_server_is_put_where_the_others_stand(before: str, after: str, path: Path) -> None:
    path.write_text(before, "utf-8")
    file = ServersFile(path)
    file.put("a", {"command": "x"})
    assert path.read_text("utf-8") == before
    file.save()
    assert path.read_text("utf-8") == after
    assert not file.is_new


def test_a_new_file_is_made(path: Path) -> None:
    for _ in range(2):
        file = ServersFile(path)
        assert file.is_new is not path.exists()
        file.put("a", {"command": "x"})
        file.save()
    assert path.read_text("utf-8") == (
        '{\n  "mcpServers": {\n    "a": {\n      "command": "x"\n    }\n  }\n}\n'
    )


@pytest.mark.parametrize(
    ("entry", "off"),
    [
        ('{"command": "x"}', '{"command": "x", "enabled": false}'),
        ('{"command": "x", "isActive": true}', '{"command": "x", "isActive": false}'),
        ('{"disabled": false}', '{"enabled": false}'),
    ],
)
def test_a_server_is_switched_off_and_on(entry: str, off: str, path: Path) -> None:
    path.write_text(f'{{"mcpServers": {{"a": {entry}}}}}', "utf-8")
    file = ServersFile(path)
    assert not file.switch("a", on=True)
    assert file.switch("a", on=False)
    file.save()
    assert path.read_text("utf-8") == f'{{"mcpServers": {{"a": {off}}}}}'
    file = ServersFile(path)
    assert not file.switch("a", on=False)
    assert file.switch("a", on=True)
    assert file.entries["a"].value.get("enabled", True)  # pyright: ignore[reportAttributeAccessIssue]


def test_cline_s_word_for_off_is_understood(path: Path) -> None:
    path.write_bytes(b'{"mcpServers": {"a": {"command": "x", "disabled": true}}}')
    file = ServersFile(path)
    assert file.switch("a", on=True)
    file.save()
    assert path.read_bytes() == b'{"mcpServers": {"a": {"command": "x"}}}'


def test_a_server_in_two_sections_is_gone_from_both(path: Path) -> None:
    path.write_bytes(b'{"mcpServers": {"a": {}, "b": {}}, "servers": {"a": {}}}')
    file = ServersFile(path)
    file.remove("a")
    file.save()
    assert path.read_bytes() == b'{"mcpServers": {"b": {}}, "servers": {}}'
    with pytest.raises(ServerNotFoundError) as caught:
        file.remove("a")
    assert caught.value.known == ("b",)


def test_what_is_no_file_of_servers_is_refused(path: Path) -> None:
    path.write_bytes(b'{"mcpServers": []}')
    with pytest.raises(ConfigError):
        ServersFile(path).put("a", {})
    path.write_bytes(b'{"mcpServers": {"a": 1}}')
    with pytest.raises(ConfigError):
        ServersFile(path).switch("a", on=False)
    for broken in (b"{", b"\xff{}", b"[]"):
        path.write_bytes(broken)
        with pytest.raises(ConfigError):
            ServersFile(path)


def test_the_file_to_edit_is_the_one_that_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = use_own_folders(tmp_path, monkeypatch)
    assert file_to_edit().is_relative_to(home)
    (tmp_path / "mcp.json").write_bytes(b"{}")
    assert file_to_edit() == tmp_path / "mcp.json"
    monkeypatch.setenv("PEGBOARD_CONFIG", str(tmp_path / "new.json"))
    assert file_to_edit() == tmp_path / "new.json"
    assert file_to_edit(tmp_path / "own.json") == tmp_path / "own.json"
    with pytest.raises(ConfigError, match="directory"):
        file_to_edit(tmp_path)


def test_a_server_that_is_switched_off_twice_is_switched_on_wholly(path: Path) -> None:
    path.write_text(
        '{"mcpServers": {"a": {"command": "x", "isActive": false, "enabled": false}}}', "utf-8"
    )
    file = ServersFile(path)
    assert file.switch("a", on=True)
    file.save()
    assert path.read_text("utf-8") == '{"mcpServers": {"a": {"command": "x"}}}'
