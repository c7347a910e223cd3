import json
import re
from typing import Any

import pytest

from pegboard.config import Problem, load_servers


def problems(entry: dict[str, Any]) -> tuple[Problem, ...]:
    found = load_servers({"mcpServers": {"git-hub": entry}}, environ={"T": "t"}).problems
    return tuple(problem for problem in found if "in plain text" in problem.message)


@pytest.mark.parametrize(
    ("entry", "field", "variable"),
    [
        ({"env": {"GITHUB_TOKEN": "hunter2!"}}, "env.GITHUB_TOKEN", "GITHUB_TOKEN"),
        ({"env": {"openaiApiKey": "hunter2!"}}, "env.openaiApiKey", "OPENAI_API_KEY"),
        ({"env": {"DB_PASSWORD": "hunter2!"}}, "env.DB_PASSWORD", "DB_PASSWORD"),
        ({"env": {"BRAVE_KEY": "a1b2c3d4e5f6a7b8"}}, "env.BRAVE_KEY", "BRAVE_KEY"),
        ({"env": {"X": "ghp_hunter2hunter2hunter2"}}, "env.X", "X"),
        ({"env": {"X": f"pb_hunter2hunte_{'0b7' * 21}a"}}, "env.X", "X"),
        ({"env": {"DB": "postgres://u:hunter2!@h/x"}}, "env.DB", "DB"),
        ({"env": {"A_TOKEN": "${A_TOKEN:-hunter2!}"}}, "env.A_TOKEN", "A_TOKEN"),
        ({"env": {"MYSQL_PASS": "hunter2!"}}, "env.MYSQL_PASS", "MYSQL_PASS"),
        ({"env": {"H": '{"Authorization": "Bearer hunter2!"}'}}, "env.H", "H"),
        ({"env": {"AUTH": "Bearer hunter2!"}}, "env.AUTH", "AUTH"),
        ({"env": {"STORE": "Name=a;AccountKey=hunter2!;x=y"}}, "env.STORE", "STORE"),
        ({"args": ["-c", "export API_KEY=hunter2! && run"]}, "args[1]", "GIT_HUB_API_KEY"),
        ({"args": ["-c", "run --token hunter2!"]}, "args[1]", "GIT_HUB_TOKEN"),
        ({"args": ["-c", "curl -H 'X-Token: hunter2!'"]}, "args[1]", "GIT_HUB_X_TOKEN"),
        ({"args": ["-e", 'H={"Authorization":"Bearer hunter2!"}']}, "args[1]", "GIT_HUB_TOKEN"),
        ({"args": ["-eDB_PASS=hunter2!"]}, "args[0]", "GIT_HUB_DB_PASS"),
        ({"args": ["--db-pass", "hunter2!"]}, "args[1]", "GIT_HUB_DB_PASS"),
        ({"args": ["--dsn", "host=h password=hunter2!"]}, "args[1]", "GIT_HUB_PASSWORD"),
        ({"args": ["--dsn", "Server=h;Pwd=hunter2!;"]}, "args[1]", "GIT_HUB_PWD"),
        ({"args": ["--dsn", "AccountKey=hunter2!"]}, "args[1]", "GIT_HUB_ACCOUNT_KEY"),
        ({"args": ["--password", "root"]}, "args[1]", "GIT_HUB_PASSWORD"),
        ({"args": ["--api-key", "hunter2!"]}, "args[1]", "GIT_HUB_API_KEY"),
        ({"args": ["--api-key=hunter2!"]}, "args[0]", "GIT_HUB_API_KEY"),
        ({"args": ["-e", "MY_TOKEN=hunter2!"]}, "args[1]", "GIT_HUB_MY_TOKEN"),
        ({"args": ["--header", "Authorization: Bearer hunter2!"]}, "args[1]", "GIT_HUB_TOKEN"),
        ({"args": ["postgresql://u:hunter2!@h/x"]}, "args[0]", "GIT_HUB_PASSWORD"),
        ({"args": ["--token", "-hunter2!"]}, "args[1]", "GIT_HUB_TOKEN"),
        ({"command": {"path": "x", "env": {"TOKEN": "hunter2!"}}}, "command.env.TOKEN", "TOKEN"),
        ({"args": ["run", "x", "--key", "hunter2!"]}, "args[3]", "GIT_HUB_KEY"),
        ({"args": ["--key=hunter2!"]}, "args[0]", "GIT_HUB_KEY"),
        ({"args": ["--auth", "hunter2!"]}, "args[1]", "GIT_HUB_AUTH"),
        ({"args": ["--pass", "hunter"]}, "args[1]", "GIT_HUB_PASS"),
        ({"args": ["--brave-key", "a1b2c3d4e5f6a7b8"]}, "args[1]", "GIT_HUB_BRAVE_KEY"),
        ({"args": ["--config", '{"apiKey":"hunter2!"}']}, "args[1]", "GIT_HUB_API_KEY"),
        ({"args": ['--config={"a": [{"password":"hunter2!"}]}']}, "args[0]", "GIT_HUB_PASSWORD"),
        ({"args": [json.dumps('{"apiKeys": ["hunter2!"]}')]}, "args[0]", "GIT_HUB_API_KEYS"),
        ({"args": ["${API_TOKEN:-hunter2!}"]}, "args[0]", "API_TOKEN"),
        ({"command": "node x.js --api-key hunter2!"}, "command", "GIT_HUB_API_KEY"),
        ({"command": "npx x --header='Cookie: a hunter2!'"}, "command", "GIT_HUB_COOKIE"),
        ({"command": {"path": "x --key hunter2!"}}, "command.path", "GIT_HUB_KEY"),
    ],
)
def test_a_plain_secret_is_a_warning_that_names_the_fix(
    entry: dict[str, Any], field: str, variable: str
) -> None:
    (problem,) = problems({"command": "x", **entry})
    assert problem.severity == "warning"
    assert problem.server == "git-hub"
    assert f"`{field}`" in problem.message
    assert f'"${{{variable}}}"' in problem.message
    assert "hunter2" not in problem.message


@pytest.mark.parametrize(
    ("entry", "field"),
    [
        ({"headers": {"Authorization": "Bearer hunter2!"}}, "headers.Authorization"),
        ({"headers": {"X-Api-Key": "hunter2!"}}, "headers.X-Api-Key"),
        ({"headers": {"Cookie": "session=hunter2!"}}, "headers.Cookie"),
        ({"bearer_token": "hunter2!"}, "bearer_token"),
        ({"oauth": {"clientSecret": "hunter2!"}}, "oauth.clientSecret"),
        ({"proxy": "http://u:hunter2!@proxy.test"}, "proxy"),
        ({"url": "https://u:hunter2!@x.test/mcp"}, "url"),
        ({"url": "https://hunter2token!@x.test/mcp"}, "url"),
        ({"url": "https://x.test/mcp?api_key=hunter2!"}, "url"),
        ({"url": "https://x.test/mcp?key=hunter2!"}, "url"),
        ({"url": "https://x.test/s/hunter2hunter2hunter2hunter2/mcp"}, "url"),
        ({"url": "https://x.test/s/0b7e4c1a-hunter2hunter2hunter2-x/mcp"}, "url"),
        ({"url": "https://x.test/550e8400-e29b-41d4-a716-446655440000/mcp"}, "url"),
    ],
)
def test_remote_servers_have_secrets_too(entry: dict[str, Any], field: str) -> None:
    (problem,) = problems({"url": "https://x.test/mcp", **entry})
    assert f"`{field}`" in problem.message
    assert "hunter2" not in problem.message


@pytest.mark.parametrize(
    "entry",
    [
        {"env": {"GITHUB_TOKEN": "${T}"}},
        {"url": "https://me:${T}@x.test"},
        {"env": {"GITHUB_TOKEN": "${T:-}"}},
        {"env": {"GITHUB_TOKEN": "<your-token>"}},
        {"env": {"GITHUB_TOKEN": "xxxxxxxx"}},
        {"env": {"GITHUB_TOKEN": "YOUR_TOKEN_HERE"}},
        {"env": {"GITHUB_TOKEN": ""}},
        {"env": {"GITHUB_TOKEN": "changeme"}},
        {"env": {"MODULE": "pb_generated_messages_of_the_service"}},
        {"env": {"USE_TOKEN": "true", "A_TOKEN": True, "B_TOKEN": 5, "C_TOKEN": "5"}},
        {"env": {"MAX_TOKENS": "many", "TOKEN_LIMIT": "high", "TOKEN_URL": "https://x.test"}},
        {"env": {"PASSWORD_FILE": "/run/secrets/x", "COMPATIBLE": "yes it is", "KEYBOARD": "de"}},
        {"args": ["--token", "${T}", "--tokens", "many", "--token", "--verbose"]},
        {"args": ["--header", "Authorization: Bearer ${T}", "https://x.test/mcp?x=1"]},
        {"headers": {"Authorization": "Bearer ${T}", "X-Trace": "on"}},
        {"args": ["https://x.test/projects/my-long-project-name-2024/mcp"]},
        {"args": ["-y", "@scope/package@latest", "--repository", "/a/b/c"]},
        {"args": ["task-management-server", "@scope/disk-usage-and-more"]},
        {"args": ["--auth", "oauth", "--key", "./certificates/server.pem", "--no-auth", "x.py"]},
        {"args": ["--sort-key", "created_at", "--config", '{"apiKey": "${T}", "port": 8080}']},
        {"args": ["--config", "{not json", "[", '"', "{" * 50_000, "[" * 50_000]},
        {"command": "/opt/my programs/run --auth none"},
        {"args": ["-c", "API_KEY=$(cat /run/key) TOKEN=$OTHER run --token `cat /run/token`"]},
        {"args": ["-c", "export API_KEY=${T} && run -H 'Authorization: Bearer ${T}'"]},
        {"args": ["-e", 'H={"Authorization":"Bearer ${T}"}', "host=h password=${T}", "Pwd=${T};"]},
        {"args": ["--title", "Basic usage", "--about", "what needs bearer authentication"]},
        {"env": {"JWT_AUDIENCE": "everybody", "PASS_THROUGH": "headers"}},
        {"env": {"AUTH": "oauth2", "NODE_OPTIONS": "--max-old-space-size=4096", "BYPASS": "on"}},
        {"args": ["--mount", "type=bind,src=/a,dst=/b", "--fields=id,key:desc", "C:\\keys"]},
    ],
)
def test_what_is_no_secret_is_no_warning(entry: dict[str, Any]) -> None:
    assert problems({"command": "x", **entry}) == ()


@pytest.mark.parametrize(
    ("name", "value", "is_secret"),
    [
        ("DB_PASSWORD", "84629137", True),
        ("dbPassword", "84629137", True),
        ("MYSQL_ROOT_PASSWORD_2", "84629137", True),
        ("POSTGRES_PASS", "846291", True),
        ("API_KEY", "8462", True),
        ("ACCESS_TOKEN", "84629137", True),
        ("PIN", "8462", True),
        ("SIM_PIN", "84629137", True),
        ("PIN", "846", False),
        ("DB_PASSWORD", "846", False),
        ("GPIO_PIN", "13", False),
        ("A_TOKEN", "8462.5", False),
        ("PORT", "8080", False),
        ("TIMEOUT", "60000", False),
        ("MAX_TOKENS", "4096", False),
        ("MAX_TOKEN", "4096", False),
        ("MAX_OUTPUT_TOKEN", "4096", False),
        ("TOKEN_LIMIT", "4096", False),
        ("TOKEN_BUDGET", "4096", False),
        ("TOKENS_PER_MINUTE", "4096", False),
        ("KEY_SIZE", "4096", False),
        ("KEY_COUNT", "4096", False),
        ("SORT_KEY", "4096", False),
        ("PASSWORD_MIN_LENGTH", "1024", False),
        ("MIN_PASSWORD", "1024", False),
        ("ACCESS_TOKEN_EXPIRE_MINUTES", "1440", False),
        ("TOKEN_REFRESH_INTERVAL", "3600", False),
        ("COOKIE_MAX_AGE", "86400", False),
        ("API_KEY_ROTATION_DAYS", "3650", False),
        ("AUTHORIZATION_PORT", "8443", False),
        ("SECRET_VERSION", "2024", False),
    ],
)
def test_digits_are_a_secret_where_nothing_is_counted(
    name: str, value: str, is_secret: bool
) -> None:
    assert len(problems({"command": "x", "env": {name: value}})) == is_secret
    assert len(problems({"command": "x", "args": [f"--{name}", value]})) == is_secret
    # In JSON, quotes are often forgotten.
    number = json.loads(value)
    assert len(problems({"command": "x", "env": {name: number}})) == is_secret
    assert len(problems({"command": "x", "args": [f"--{name}", number]})) == is_secret


def test_a_password_of_digits_in_an_address_is_a_secret() -> None:
    assert len(problems({"command": "x", "env": {"DB": "postgres://u:84629137@h:5432/x"}})) == 1
    assert problems({"command": "x", "env": {"DB": "postgres://h:5432/x"}}) == ()


def test_servers_without_a_letter_of_ours_are_not_told_to_share_a_variable() -> None:
    entry = {"url": "https://x.test/mcp", "bearer_token": "hunter2!"}
    found = load_servers(
        {"mcpServers": {"天气": entry, "地图": entry, "github-天气": entry}}
    ).problems
    variables = [it.message.rpartition("variable ")[2].rstrip(".") for it in found]
    assert variables[2] == "GITHUB_TOKEN"
    assert len(set(variables)) == 3
    assert all(re.fullmatch(r"MCP_[0-9A-F]{8}_TOKEN", it) for it in variables[:2])


@pytest.mark.parametrize(
    ("args", "variables"),
    [
        (["--token", "one!", "--token", "two!"], ["TOKEN", "TOKEN_2"]),
        (["--token", "one!", "--token", "one!"], ["TOKEN", "TOKEN"]),
        (
            ["--token", "one!", "--token", "two!", "X-Token: two!", "token=three!"],
            ["TOKEN", "TOKEN_2", "X_TOKEN", "TOKEN_3"],
        ),
    ],
)
def test_two_secrets_are_never_told_to_share_a_variable(
    args: list[str], variables: list[str]
) -> None:
    found = problems({"command": "x", "args": args})
    assert [it.message.split("variable ")[1] for it in found] == [
        f"GIT_HUB_{variable}." for variable in variables
    ]


def test_a_token_and_the_header_that_sends_it_share_a_variable() -> None:
    headers = {"Authorization": "Bearer hunter2!"}
    entry = {"url": "https://x.test", "bearer_token": "hunter2!", "headers": headers}
    assert all("variable GIT_HUB_TOKEN." in it.message for it in problems(entry))
    headers["Authorization"] = "Bearer another!"
    assert "variable GIT_HUB_TOKEN_2." in problems(entry)[1].message


def test_a_default_that_is_never_closed_is_read_in_one_go() -> None:
    # Quadratic, this would take minutes.
    entry = {"command": "x", "env": {"API_TOKEN": "${" + ":-" * 200_000}}
    (problem,) = load_servers({"mcpServers": {"one": entry}}, environ={}).problems
    assert "no `}`" in problem.message
