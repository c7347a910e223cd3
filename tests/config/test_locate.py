import traceback
from pathlib import Path

import pytest

from pegboard.config import Location, load_servers, locate_config, user_config_file
from pegboard.errors import ConfigError


@pytest.fixture(autouse=True)
def in_an_empty_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("PEGBOARD_CONFIG", raising=False)
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    return project


def write(path: Path, name: str = "one") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'{{"mcpServers": {{"{name}": {{"command": "x"}}}}}}', "utf-8")
    return path


def test_the_order_is_explicit_variable_project_user(tmp_path: Path) -> None:
    user = write(user_config_file(), "user")
    assert locate_config(environ={}) == Location(user, "user")
    hidden = write(tmp_path / "project/.pegboard/mcp.json", "hidden")
    assert locate_config(environ={}) == Location(hidden, "project", (user,))
    project = write(tmp_path / "project/mcp.json", "project")
    assert locate_config(environ={}) == Location(project, "project", (hidden, user))
    named = write(tmp_path / "named.json", "named")
    environ = {"PEGBOARD_CONFIG": str(named)}
    assert locate_config(environ=environ) == Location(
        named, "PEGBOARD_CONFIG", (project, hidden, user)
    )
    explicit = write(tmp_path / "explicit.json", "explicit")
    assert locate_config(explicit, environ=environ) == Location(
        explicit, "explicit", (named, project, hidden, user)
    )
    loaded = load_servers(str(explicit), environ=environ)
    assert [server.name for server in loaded.servers] == ["explicit"]
    assert (loaded.path, loaded.origin) == (explicit, "explicit")
    assert loaded.others == (named, project, hidden, user)


def test_it_can_say_which_file_won(tmp_path: Path) -> None:
    project = write(tmp_path / "project/mcp.json")
    user = write(user_config_file())
    assert str(locate_config(environ={})) == (
        f"{project} (found in the current directory); not read: {user}"
    )


def test_no_file_anywhere_is_an_empty_configuration() -> None:
    loaded = load_servers(environ={})
    assert (loaded.servers, loaded.problems, loaded.path, loaded.origin) == ((), (), None, "none")
    assert str(locate_config(environ={})) == "No configuration file was found."


def test_a_named_file_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    write(tmp_path / "project/mcp.json")
    with pytest.raises(ConfigError, match="does not exist") as caught:
        load_servers(tmp_path / "nowhere.json")
    assert caught.value.path == str(tmp_path / "nowhere.json")
    with pytest.raises(ConfigError, match="which PEGBOARD_CONFIG names"):
        load_servers(environ={"PEGBOARD_CONFIG": str(tmp_path / "nowhere.json")})


def test_an_empty_variable_names_nothing() -> None:
    assert locate_config(environ={"PEGBOARD_CONFIG": ""}).origin == "none"


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "project/mcp.json").mkdir()
    assert locate_config(environ={}).origin == "none"
    with pytest.raises(ConfigError, match="is a directory") as caught:
        locate_config(tmp_path)
    assert caught.value.path == str(tmp_path)


@pytest.mark.parametrize("name", ["~nobody-of-this-name/mcp.json", "x" * 5000, "a\0b"])
def test_a_path_that_leads_nowhere_is_a_configuration_error(name: str) -> None:
    with pytest.raises(ConfigError):
        load_servers(name, environ={})
    with pytest.raises(ConfigError, match="PEGBOARD_CONFIG"):
        load_servers(environ={"PEGBOARD_CONFIG": name})


def test_a_directory_that_may_not_be_entered_is_a_configuration_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    # Not by its mode: root may enter everything.
    monkeypatch.setattr(Path, "is_file", refuse)
    with pytest.raises(ConfigError, match="Permission denied"):
        locate_config(tmp_path / "mcp.json", environ={})
    assert locate_config(environ={}).origin == "none"


@pytest.mark.parametrize("start", ["", "  \n", "// my servers\n"])
@pytest.mark.parametrize("length", [10, 5000])
def test_json_in_place_of_a_path_is_refused_and_not_quoted(start: str, length: int) -> None:
    text = start + '{"mcpServers": {"a": {"env": {"T": "hunter2%s"}}}}' % ("x" * length)
    for source, environ in ((text, {}), (None, {"PEGBOARD_CONFIG": text})):
        with pytest.raises(ConfigError, match="JSON") as caught:
            load_servers(source, environ=environ)
        assert "hunter2" not in "".join(traceback.format_exception(caught.value))
        assert caught.value.path is None


def test_no_home_is_no_hindrance(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nowhere)
    (server,) = load_servers({"one": {"command": "~/run"}}, environ={}).servers
    assert server.command == "~/run"


def test_a_file_is_not_its_own_rival(tmp_path: Path) -> None:
    project = write(tmp_path / "project/mcp.json")
    assert locate_config("mcp.json", environ={}) == Location(project, "explicit")
