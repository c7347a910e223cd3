import re
from typing import Any

import jsonschema
import pytest

from pegboard.config import config_schema
from pegboard.config.files.entry import SPELLINGS
from pegboard.config.files.file_schema import SHIPPED, schema_text

VALIDATOR = jsonschema.Draft202012Validator(config_schema())
FILES: list[dict[str, Any]] = [
    {},
    {"mcpServers": {"a": {"command": "npx", "args": ["-y", "x", 5], "env": {"PORT": 80}}}},
    {"mcpServers": {"a": {"type": "http", "url": "https://x", "headers": {"A": "${B}"}}}},
    {"mcpServers": {"a": {"serverUrl": "https://x", "disabledTools": ["y"], "trust": True}}},
    {"servers": {"a": {"type": "stdio", "command": "x", "envFile": ".env", "dev": {}}}},
    {"inputs": [{"type": "promptString", "id": "k", "password": True}], "servers": {}},
    {"mcp": {"servers": {"a": {"command": "x"}}}, "editor.fontSize": 12},
    {"context_servers": {"a": {"source": "custom", "command": {"path": "x", "args": []}}}},
    {"mcpServers": {"a": {"command": "x", "env": None, "cwd": None, "unheard_of": [1]}}},
    {"mcpServers": {"a": {"url": "https://x", "oauth": True, "timeouts": {"call": 5}}}},
    {"mcpServers": {"a": {"url": "https://x", "oauth": {"enabled": False}}}},
    {"mcpServers": {"a": {"url": "https://x", "tls": {"ca": "ca.pem", "clientCert": "me.pem"}}}},
    {"mcpServers": {"a": {"url": "https://x", "proxy": False}, "b": {"proxy": "http://p:3128"}}},
    {"gateway": {"auth": {"keys": True}, "pinned": ["x_*"], "tenants": {"team": "team.json"}}},
    {"gateway": {"profiles": {"readers": {"tools": ["*_read"]}}, "ttl_ms": 0}},
    {"mcpServers": {"a": {"url": "https://x", "oauth": {"clientId": "x", "scopes": "a b"}}}},
]


def test_the_shipped_file_is_what_the_model_gives() -> None:
    shipped = SHIPPED.read_text("utf-8")
    assert shipped == schema_text(), "Run `python -m scripts.reference`."


def test_it_is_a_valid_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(config_schema())


@pytest.mark.parametrize("file", FILES)
def test_the_files_people_have_are_accepted(file: dict[str, Any]) -> None:
    assert list(VALIDATOR.iter_errors(file)) == []


@pytest.mark.parametrize(
    "entry",
    [
        {"command": 5},
        {"command": "x", "args": "y"},
        {"command": "x", "timeouts": {"call": "soon"}},
        {"command": "x", "sharing": "alone"},
        {"command": "x", "max_result_chars": 0},
        {"serverUrl": 5},
        {"url": "https://x", "tls": {"ca": 5}},
        {"url": "https://x", "proxy": 3128},
    ],
)
def test_mistakes_are_refused(entry: dict[str, Any]) -> None:
    assert list(VALIDATOR.iter_errors({"mcpServers": {"a": entry}})) != []


@pytest.mark.parametrize(
    "section",
    [{"auht": {}}, {"auth": {"kyes": True}}, {"page_size": "many"}, {"tenants": ["a"]}, []],
)
def test_mistakes_about_the_gateway_are_refused(section: Any) -> None:
    assert list(VALIDATOR.iter_errors({"gateway": section})) != []


def test_every_spelling_is_in_it_and_every_field_is_explained() -> None:
    definitions = config_schema()["$defs"]
    for kind, spellings in SPELLINGS.items():
        properties = definitions[kind.__name__]["properties"]
        assert set(spellings) <= set(properties)
    for name, schema in definitions["ServerEntry"]["properties"].items():
        assert re.search(r"\w", schema.get("description", "")) or "anyOf" in schema, name


def test_nobody_can_change_it_for_others() -> None:
    config_schema()["properties"].clear()
    assert config_schema()["properties"]
