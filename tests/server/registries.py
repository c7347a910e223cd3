"""A gateway on a real socket that publishes itself, and the schemas of what it publishes."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx2
from jsonschema import Draft202012Validator, FormatChecker

from pegboard.auth import AuthSettings, open_authenticator
from pegboard.gateway.catalog.group_addresses import ApprovedServer
from pegboard.model.principal import Principal
from pegboard.server import App, HttpAuthenticator, ServeOptions, Serving, open_serving
from pegboard.server.http.discovery.discovery import Discovery
from tests.server.serving import served

OFFICIAL = "io.modelcontextprotocol.registry/official"
NOWHERE: Mapping[str, Any] = {"url": "http://127.0.0.1:9/mcp"}
"""The entry of a server that cannot be reached: it is approved all the same."""

_TEXT = {"type": "string", "minLength": 1, "maxLength": 100}
_NAME = {
    "type": "string",
    "pattern": "^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$",
    "minLength": 3,
    "maxLength": 200,
}
_VERSION = {
    "type": "string",
    "maxLength": 255,
    "not": {"pattern": r"^[\^~><=]|(^|\.)[xX*](\.|$)|^latest$|\s"},
}
_INPUT = {
    "type": "object",
    "properties": {
        "description": {"type": "string"},
        "isRequired": {"type": "boolean"},
        "isSecret": {"type": "boolean"},
    },
    "additionalProperties": False,
}
_REMOTE: dict[str, Any] = {
    "type": "object",
    "required": ["type", "url"],
    "properties": {
        "type": {"enum": ["streamable-http"]},
        "url": {"type": "string", "format": "uri", "pattern": r"^https?://[^\s{}]+$"},
        "headers": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string"},
                    "value": {"type": "string"},
                    "isRequired": {"type": "boolean"},
                    "isSecret": {"type": "boolean"},
                    "variables": {"type": "object", "additionalProperties": _INPUT},
                },
                "additionalProperties": False,
            },
        },
    },
    "additionalProperties": False,
}
SERVER: dict[str, Any] = {
    "type": "object",
    "required": ["$schema", "name", "description", "version", "remotes"],
    "properties": {
        "$schema": {
            "const": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
        },
        "name": _NAME,
        "title": _TEXT,
        "description": _TEXT,
        "version": _VERSION,
        "remotes": {"type": "array", "minItems": 1, "maxItems": 1, "items": _REMOTE},
    },
    "additionalProperties": False,
}
"""The official schema of ``server.json``, without what the gateway does not use."""
RESPONSE: dict[str, Any] = {
    "type": "object",
    "required": ["server", "_meta"],
    "properties": {
        "server": SERVER,
        "_meta": {
            "type": "object",
            "required": [OFFICIAL],
            "properties": {
                OFFICIAL: {
                    "type": "object",
                    "required": ["status", "publishedAt", "updatedAt", "isLatest"],
                    "properties": {
                        "status": {"const": "active"},
                        "statusChangedAt": {"type": "string", "format": "date-time"},
                        "publishedAt": {"type": "string", "format": "date-time"},
                        "updatedAt": {"type": "string", "format": "date-time"},
                        "isLatest": {"const": True},
                    },
                    "additionalProperties": False,
                }
            },
            "additionalProperties": False,
        },
    },
    "additionalProperties": False,
}
LIST: dict[str, Any] = {
    "type": "object",
    "required": ["servers", "metadata"],
    "properties": {
        "servers": {"type": "array", "items": RESPONSE},
        "metadata": {
            "type": "object",
            "required": ["count"],
            "properties": {"count": {"type": "integer"}, "nextCursor": {"type": "string"}},
            "additionalProperties": False,
        },
    },
    "additionalProperties": False,
}
CARD: dict[str, Any] = {
    "type": "object",
    "required": ["$schema", "name", "description", "version"],
    "properties": {
        "$schema": {
            "const": "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
        },
        "name": _NAME,
        "title": _TEXT,
        "description": _TEXT,
        "version": _VERSION,
        "remotes": {
            "type": "array",
            "items": {
                **_REMOTE,
                "properties": {
                    **_REMOTE["properties"],
                    "supportedProtocolVersions": {"type": "array", "items": {"type": "string"}},
                },
            },
        },
    },
    "additionalProperties": False,
}


def check(value: Any, schema: dict[str, Any]) -> None:
    """Check a value against a schema, with the formats of its texts."""
    Draft202012Validator(schema, format_checker=FormatChecker()).validate(value)


@asynccontextmanager
async def published(
    servers: Mapping[str, Any] | Path | None = None,
    *,
    auth: AuthSettings | None = None,
    storage: str | None = None,
    tenants: Mapping[str, str] | None = None,
    **gateway: Any,
) -> AsyncGenerator[tuple[httpx2.AsyncClient, Serving]]:
    """Serve a gateway with these servers and settings, or this file; gives a client of it."""
    settings = AuthSettings() if auth is None else auth
    section = {**gateway, **({"tenants": dict(tenants)} if tenants else {})}
    config: str | dict[str, Any] = (
        str(servers)
        if isinstance(servers, Path)
        else {"mcpServers": dict(servers or {}), "gateway": section}
    )
    options = ServeOptions(config=config, storage=storage)
    async with (
        open_serving(options) as serving,
        open_authenticator(settings, storage=storage) as authenticator,
    ):
        with anyio.fail_after(20):
            await serving.startup.run()
        app = App(
            serving.pipeline,
            authenticator=HttpAuthenticator(authenticator, settings=settings),
        )
        app.discovery = Discovery.of(
            serving.gateway.options, settings, approved=partial(_approved, serving)
        )
        async with served(app) as url, httpx2.AsyncClient(base_url=url, timeout=10) as client:
            yield client, serving


async def _approved(serving: Serving, principal: Principal) -> list[ApprovedServer]:
    return await serving.gateway.approved_servers(principal)


def names_in(response: httpx2.Response) -> list[str]:
    """Return the names in a list of servers, without their namespace, and check the list."""
    assert response.status_code == 200, response.text
    value = response.json()
    check(value, LIST)
    assert value["metadata"]["count"] == len(value["servers"])
    return [it["server"]["name"].partition("/")[2] for it in value["servers"]]
