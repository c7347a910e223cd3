import json
from typing import Any

import pytest

from pegboard.config import Problem, load_servers


def problems(entry: dict[str, Any]) -> tuple[Problem, ...]:
    return load_servers({"mcpServers": {"git-hub": entry}}, environ={"T": "t"}).problems


@pytest.mark.parametrize(
    ("entry", "field", "variable"),
    [
        ({"env": {"GITHUB_TOKEN": "hunter2!"}}, "env.GITHUB_TOKEN", "GITHUB_TOKEN"),
        ({"env": {"openaiApiKey": "hunter2!"}}, "env.openaiApiKey", "OPENAI_API_KEY"),
        ({"env": {"DB_PASSWORD": "hunter2!"}}, "env.DB_PASSWORD", "DB_PASSWORD"),
        ({"env": {"BRAVE_KEY": "a1b2c3d4e5f6a7b8"}}, "env.BRAVE_KEY", "BRAVE_KEY"),
        ({"env": {"X": "ghp_hunter2hunter2hunter2"}}, "env.X", "X"),
        ({"env": {"DB": "postgres://u:hunter2!@h/x"}}, "env.DB", "DB"),
        ({"env": {"A_TOKEN": "${A_TOKEN:-hunter2!}"}}, "env.A_TOKEN", "A_TOKEN"),
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
        {"env": {"GITHUB_TOKEN": "${T:-}"}},
        {"env": {"GITHUB_TOKEN": "<your-token>"}},
        {"env": {"GITHUB_TOKEN": "xxxxxxxx"}},
        {"env": {"GITHUB_TOKEN": "YOUR_TOKEN_HERE"}},
        {"env": {"GITHUB_TOKEN": ""}},
        {"env": {"GITHUB_TOKEN": "changeme"}},
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
    ],
)
def test_what_is_no_secret_is_no_warning(entry: dict[str, Any]) -> None:
    assert problems({"command": "x", **entry}) == ()


def test_a_default_that_is_never_closed_is_read_in_one_go() -> None:
    # Quadratic, this would take minutes.
    (problem,) = problems({"command": "x", "env": {"API_TOKEN": "${" + ":-" * 200_000}})
    assert "no `}`" in problem.message
