"""The JSON Schema of the configuration file, made from its model."""

import json
from pathlib import Path
from typing import Any

import msgspec

from pegboard.config.files.entry import SPELLINGS, ServerEntry
from pegboard.config.files.registry_settings import REGISTRY, RegistrySettings
from pegboard.config.files.server_defaults import DEFAULTS, ServerDefaults

__all__ = ["GATEWAY", "SHIPPED", "config_schema", "schema_text"]

GATEWAY = Path(__file__).with_name("gateway.schema.json")
"""The schema of the section ``gateway``, generated from the settings of the gateway."""

_DIALECTS: dict[tuple[str, ...], str] = {
    ("mcpServers",): "Servers by name, as Claude, Cursor, Windsurf and Gemini have them.",
    ("servers",): "Servers by name, as VS Code has them.",
    ("mcp", "servers"): "Servers by name, in the settings of VS Code.",
    ("context_servers",): "Servers by name, as Zed has them.",
}


def config_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of an ``mcp.json``, for editors and validators.

    Unknown fields are allowed, because other clients have fields of their own.
    """
    kinds = [ServerEntry, ServerDefaults, RegistrySettings]
    (reference, shared, registry), definitions = msgspec.json.schema_components(kinds)
    for kind, spellings in SPELLINGS.items():
        _spell(kind.__name__, definitions[kind.__name__]["properties"], spellings)
    root: dict[str, Any] = {}
    for path, description in _DIALECTS.items():
        *outer, name = path
        inside = root
        for key in outer:
            inside = inside.setdefault(key, {"type": "object", "properties": {}})["properties"]
        inside[name] = {
            "description": description,
            "type": "object",
            "additionalProperties": reference,
        }
    root["inputs"] = {
        "description": "What VS Code asks for; here `${input:ID}` is the environment variable ID.",
        "type": "array",
        "items": {"type": "object", "properties": {"id": {"type": "string"}}},
    }
    root[DEFAULTS] = shared
    root[REGISTRY] = registry
    root["skills"] = {
        "description": "A folder of skills that the gateway serves, relative to this file.",
        "type": "string",
        "examples": ["./skills"],
    }
    sections = json.loads(GATEWAY.read_text("utf-8"))
    root["gateway"] = {"$ref": "#/$defs/Gateway"}
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "MCP servers",
        "type": "object",
        "properties": root,
        "$defs": {**definitions, **sections},
    }
    # As in JSON: the default of a list is a list.
    return json.loads(json.dumps(schema))


def _spell(kind: str, properties: dict[str, Any], spellings: dict[str, str]) -> None:
    for schema in properties.values():
        # `null` means that a field is left out; it is not a value worth suggesting.
        schema.pop("default", None)
    for spelling, field in spellings.items():
        properties[spelling] = {
            "description": f"The same as `{field}`.",
            "$ref": f"#/$defs/{kind}/properties/{field}",
        }


SHIPPED = Path(__file__).with_name("mcp.schema.json")


def schema_text() -> str:
    """Return the schema as the shipped file has it."""
    return json.dumps(config_schema(), indent=2, ensure_ascii=False) + "\n"
