"""Eras: shape a result for the protocol version (modern or legacy handshake) of a client."""

from collections.abc import Mapping
from typing import Any, cast

from pegboard.gateway.request import Client, object_in

__all__ = ["CACHEABLE", "LOG_LEVEL", "RESERVED", "SUBSCRIPTION_ID", "for_client"]

RESERVED = "io.modelcontextprotocol/"
"""The prefix of the keys in ``_meta`` that belong to the protocol."""
SUBSCRIPTION_ID = f"{RESERVED}subscriptionId"
LOG_LEVEL = f"{RESERVED}logLevel"
_SERVER_INFO = f"{RESERVED}serverInfo"
CACHEABLE = frozenset(
    {
        "server/discover",
        "tools/list",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        # The text of the extension does not ask it of this one, but the inspector does.
        "resources/directory/read",
        "skills/list",
        "skills/get",
    }
)
"""Methods whose results say how long a client may cache them."""
_MODERN_ONLY = ("resultType", "ttlMs", "cacheScope")
_SINCE: Mapping[str, str] = {"audio": "2025-03-26", "resource_link": "2025-06-18"}
"""Types of content blocks, and the first version of the protocol that has them."""


def for_client(
    result: Mapping[str, Any], client: Client, *, method: str, info: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a result as a client of this era expects it, whether ours or a server's.

    Args:
        result: the result, ours or a server's.
        client: the client that receives it.
        method: the method of its request.
        info: the ``serverInfo`` of the gateway.
    """
    if client.era == "modern":
        return _modern(result, method, info)
    return _legacy(result, client.version)


def _modern(result: Mapping[str, Any], method: str, info: Mapping[str, Any]) -> dict[str, Any]:
    said = object_in(result.get("_meta"))
    # The client asked the gateway, so the gateway names itself, not the server behind it.
    shaped = {**result, "_meta": {**said, _SERVER_INFO: info}}
    if shaped.get("resultType") is None:
        shaped["resultType"] = "complete"
    if method in CACHEABLE and shaped["resultType"] == "complete":
        shaped.setdefault("ttlMs", 0)
        shaped.setdefault("cacheScope", "private")
    return shaped


def _legacy(result: Mapping[str, Any], version: str) -> dict[str, Any]:
    shaped = {key: value for key, value in result.items() if key not in _MODERN_ONLY}
    said = object_in(shaped.get("_meta"))
    if _SERVER_INFO in said:
        shaped["_meta"] = {key: value for key, value in said.items() if key != _SERVER_INFO}
    if "structuredContent" in shaped and not isinstance(shaped["structuredContent"], Mapping):
        # Only the modern era allows lists and plain values there; the text repeats them.
        del shaped["structuredContent"]
    if "tools" in shaped:
        shaped["tools"] = [_legacy_definition(tool) for tool in shaped["tools"]]
    content: object = shaped.get("content")
    if version < "2025-06-18" and isinstance(content, list):
        blocks = cast("list[Any]", content)
        shaped["content"] = [_known_block(block, version) for block in blocks]
    return shaped


def _legacy_definition(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    schema: object = tool.get("outputSchema")
    if schema is None or object_in(schema).get("type") == "object":
        return tool
    return {key: value for key, value in tool.items() if key != "outputSchema"}


def _known_block(block: Any, version: str) -> Any:
    kind = object_in(block).get("type")
    if version >= _SINCE.get(str(kind), ""):
        return block
    words = block.get("uri") or block.get("mimeType") or ""
    return {"type": "text", "text": f"[{kind}: {words}]"}
