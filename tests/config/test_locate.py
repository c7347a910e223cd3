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
    with pytest.raises(ConfigError, match="does not exist"):
        locate_config(tmp_path)


def test_a_file_is_not_its_own_rival(tmp_path: Path) -> None:
    project = write(tmp_path / "project/mcp.json")
    assert locate_config("mcp.json", environ={}) == Location(project, "explicit")
