from typing import Any

import pytest

from pegboard.config import OAuthConfig, ServerConfig, Timeouts
from pegboard.errors import ConfigError


def test_lists_become_tuples_and_mappings_are_frozen() -> None:
    patterns: Any = ["a"]
    server = ServerConfig(
        name="one", transport="stdio", command="x", allow=patterns, env={"A": "b"}
    )
    assert server.allow == ("a",)
    with pytest.raises(TypeError, match="frozen"):
        server.env["A"] = "c"  # pyright: ignore[reportIndexIssue]


@pytest.mark.parametrize("field", ["args", "allow", "deny", "tags", "idempotent"])
def test_a_bare_string_is_not_a_list(field: str) -> None:
    options: dict[str, Any] = {field: "text"}
    with pytest.raises(ConfigError, match=f"`{field}`"):
        ServerConfig(name="one", transport="stdio", command="x", **options)


@pytest.mark.parametrize(
    "options",
    [
        {"transport": "pigeon", "command": "x"},
        {"transport": "stdio"},
        {"transport": "memory"},
        {"transport": "sse", "command": "x"},
        {"transport": "sse", "url": "ws://x.test"},
        {"transport": "websocket", "url": "https://x.test"},
        {"transport": "sse", "url": "https://x.test", "stateless": True},
        {"transport": "stdio", "command": "x", "name": "a\nb"},
        {"transport": "sse", "url": " https://x.test"},
        {"transport": "sse", "url": "https://x.test "},
        {"transport": "sse", "url": "https://x.test:99999"},
    ],
)
def test_what_cannot_work_is_refused(options: dict[str, Any]) -> None:
    options = {"name": "one", **options}
    with pytest.raises(ConfigError):
        ServerConfig(**options)


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), True, "5", None])
def test_a_timeout_is_a_positive_number(seconds: Any) -> None:
    with pytest.raises(ConfigError, match="positive number"):
        Timeouts(call=seconds)


def test_the_client_secret_is_not_shown() -> None:
    oauth = OAuthConfig(client_id="x", client_secret="hunter2!")
    assert "hunter2" not in repr(oauth)
    assert list(oauth.__rich_repr__()) == [
        ("flow", "authorization_code"),
        ("client_id", "x"),
        ("secret", "***"),
    ]


def test_a_server_of_this_process_shows_its_type() -> None:
    assert ServerConfig(name="one", transport="memory", server=[1]).target == "list"
