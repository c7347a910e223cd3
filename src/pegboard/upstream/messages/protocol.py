"""Words of the MCP protocol: versions, ``_meta`` keys, error codes, and the headers of HTTP."""

import base64
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

__all__ = [
    "CLIENT_CAPABILITIES",
    "CLIENT_INFO",
    "CONNECTION_CLOSED",
    "HANDSHAKE_VERSIONS",
    "HEADER_MISMATCH",
    "INTERNAL_ERROR",
    "INVALID_PARAMS",
    "INVALID_REQUEST",
    "LATEST_HANDSHAKE",
    "LATEST_MODERN",
    "LOG_LEVEL",
    "METHOD_NOT_FOUND",
    "MODERN_FIELDS",
    "MODERN_VERSIONS",
    "PROTOCOL_VERSION",
    "RELATED_TASK",
    "SERVER_INFO",
    "SUBSCRIPTION_ID",
    "TASKS",
    "UNSUPPORTED_PROTOCOL_VERSION",
    "invalid_header_mark",
    "marked_headers",
    "param_headers",
    "request_headers",
    "without_modern_fields",
    "without_reserved_keys",
]

HANDSHAKE_VERSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN_VERSIONS: Final = ("2026-07-28",)
LATEST_HANDSHAKE: Final = HANDSHAKE_VERSIONS[-1]
LATEST_MODERN: Final = MODERN_VERSIONS[-1]

_RESERVED: Final = "io.modelcontextprotocol/"
PROTOCOL_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
CLIENT_INFO: Final = "io.modelcontextprotocol/clientInfo"
CLIENT_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
SERVER_INFO: Final = "io.modelcontextprotocol/serverInfo"
LOG_LEVEL: Final = "io.modelcontextprotocol/logLevel"
SUBSCRIPTION_ID: Final = "io.modelcontextprotocol/subscriptionId"
RELATED_TASK: Final = "io.modelcontextprotocol/related-task"
"""The key that the revision 2025-11-25 has for messages that belong to a task."""
TASKS: Final = "io.modelcontextprotocol/tasks"
"""The extension of the modern era for tasks."""

INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
CONNECTION_CLOSED: Final = -32000
HEADER_MISMATCH: Final = -32020
UNSUPPORTED_PROTOCOL_VERSION: Final = -32022

MODERN_FIELDS: Final = frozenset({"resultType", "inputRequests", "requestState", "_meta"})
"""The fields of a result that only the modern era has, and the one whose keys it reserves."""
_NAMED_BY: Final = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
"""The parameter that the header ``Mcp-Name`` repeats, by method."""
_PLAIN_HEADER = re.compile(r"(?! )[\x20-\x7e]*(?<! )")
_WRAPPED_HEADER = re.compile(r"=\?base64\?.*\?=")
_HEADER_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_MARK = "x-mcp-header"
_MARKED_TYPES = frozenset({"string", "integer", "boolean"})
_SCHEMA = frozenset(
    {
        *("items", "contains", "additionalProperties", "propertyNames", "contentSchema"),
        *("unevaluatedItems", "unevaluatedProperties", "not", "if", "then", "else"),
    }
)
_SCHEMA_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_SCHEMA_MAPS = frozenset({"patternProperties", "dependentSchemas", "$defs", "definitions"})

Path = tuple[str, ...]


def without_modern_fields(result: dict[str, Any]) -> dict[str, Any]:
    """Return a result without what only the modern era has: a handshake server cannot mean it."""
    kept = without_reserved_keys(result)
    return {key: kept[key] for key in kept if key == "_meta" or key not in MODERN_FIELDS}


def without_reserved_keys(params: dict[str, Any]) -> dict[str, Any]:
    """Return a result or parameters without the keys in ``_meta`` that belong to the modern era."""
    meta: object = params.get("_meta")
    if not isinstance(meta, dict):
        return params
    said = cast("dict[str, Any]", meta)
    if not any(it.startswith(_RESERVED) for it in said):
        return params
    kept = {key: value for key, value in said.items() if not key.startswith(_RESERVED)}
    return {**params, "_meta": kept}


def request_headers(version: str, method: str, params: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers that repeat the body of a request of the modern era."""
    headers = {"mcp-protocol-version": version, "mcp-method": method}
    key = _NAMED_BY.get(method)
    name = None if key is None else params.get(key)
    if isinstance(name, str):
        headers["mcp-name"] = _header_value(name)
    return headers


def marked_headers(schema: object) -> dict[Path, str]:
    """Return the arguments that a tool wants in headers, by their path in its input schema."""
    return {
        path: token
        for path, place in _places(schema)
        if path and isinstance(token := place.get(_MARK), str)
    }


def param_headers(marked: Mapping[Path, str], arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers for the arguments of one call."""
    headers: dict[str, str] = {}
    for path, token in marked.items():
        value: Any = arguments
        for key in path:
            value = (
                cast("Mapping[str, Any]", value).get(key) if isinstance(value, Mapping) else None
            )
        shown = _as_header(value)
        if shown is not None:
            headers[f"mcp-param-{token.lower()}"] = _header_value(shown)
    return headers


def invalid_header_mark(schema: object) -> str | None:
    """Return what is wrong with the header marks of an input schema; ``None`` if nothing is."""
    taken: set[str] = set()
    for path, place in _places(schema):
        if _MARK not in place:
            continue
        token: object = place[_MARK]
        where = ".".join(path or ())
        if not path:
            return f"`{_MARK}` stands where no argument is"
        if not isinstance(token, str) or not _HEADER_NAME.fullmatch(token):
            return f"`{_MARK}` of {where!r} is not the name of a header"
        if place.get("type") not in _MARKED_TYPES:
            return f"`{_MARK}` of {where!r} needs the type string, integer or boolean"
        if token.lower() in taken:
            return f"`{_MARK}` {token!r} is there twice"
        taken.add(token.lower())
    return None


def _places(schema: object) -> Iterator[tuple[Path | None, Mapping[str, Any]]]:
    """Yield every schema within a schema, with its path if it is an argument."""
    waiting: list[tuple[Path | None, object]] = [((), schema)]
    while waiting:
        path, node = waiting.pop()
        if not isinstance(node, Mapping):
            continue
        place = cast("Mapping[str, Any]", node)
        yield path, place
        for word, value in place.items():
            if word == "properties" and isinstance(value, Mapping):
                for name, inner in cast("Mapping[str, Any]", value).items():
                    waiting.append((None if path is None else (*path, name), inner))
            elif word in _SCHEMA:
                waiting.append((None, value))
            elif word in _SCHEMA_LISTS and isinstance(value, list):
                waiting += ((None, inner) for inner in cast("list[object]", value))
            elif word in _SCHEMA_MAPS and isinstance(value, Mapping):
                waiting += ((None, inner) for inner in cast("Mapping[str, Any]", value).values())


def _as_header(value: object) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | int | float):
        return None
    try:
        return str(value)
    except ValueError:  # more digits than Python writes
        return None


def _header_value(text: str) -> str:
    if _PLAIN_HEADER.fullmatch(text) and not _WRAPPED_HEADER.fullmatch(text):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode('ascii')}?="
