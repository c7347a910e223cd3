"""Extensions: the capabilities, extensions and result types that Pegboard carries, by direction.

This is the allow-list. What is not in these tables is neither announced nor forwarded, so that no
side begins something that the other side never hears of. A new extension comes in here.
"""

from collections.abc import Mapping
from typing import Any, Final, cast

from pegboard.errors import UnsupportedResultError
from pegboard.errors.root import shorten
from pegboard.model.json_values import object_in
from pegboard.upstream.messages.protocol import TASKS

__all__ = [
    "ANNOUNCED_EXTENSIONS",
    "CARRIED_CAPABILITIES",
    "CARRIED_EXTENSIONS",
    "CARRIED_RESULT_TYPES",
    "OWN_EXTENSIONS",
    "PLAIN_CAPABILITIES",
    "SHOWN_APPS",
    "SKILLS",
    "UI",
    "CarriedCapabilities",
    "carried_capabilities",
    "check_result_type",
    "declares",
    "is_task",
    "told_capabilities",
    "without",
]

SKILLS: Final = "io.modelcontextprotocol/skills"
"""Skills (SEP-2640): folders of instructions for models, read like resources."""

UI: Final = "io.modelcontextprotocol/ui"
"""MCP Apps (SEP-1865): tools with a page that the host shows."""

SHOWN_APPS: Final[Mapping[str, Any]] = {"mimeTypes": ["text/html;profile=mcp-app"]}
"""The settings of ``UI`` for a client that shows apps: the only kind of page that there is."""

CARRIED_CAPABILITIES: Final[Mapping[str, Mapping[str, type]]] = {
    "elicitation": {"form": dict, "url": dict},
    "sampling": {"context": dict, "tools": dict},
    "roots": {"listChanged": bool},
}
"""From clients to servers: each capability, its fields, and the JSON type of each field."""

CARRIED_EXTENSIONS: Final[Mapping[str, Mapping[str, type]]] = {
    # Its pages are resources and its marks are `_meta` of tools: both get the URIs of the gateway.
    UI: {"mimeTypes": list},
    # The gateway has its methods itself, and announces it where there may be skills.
    SKILLS: {},
}
"""From clients to servers: each extension by its id, its settings, and their JSON types."""

OWN_EXTENSIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    # A task never reaches the client of a call: Pegboard waits for its result, see `tasks/`.
    TASKS: {},
}
"""From Pegboard itself to servers of the modern era, whatever the client of a call can do."""

ANNOUNCED_EXTENSIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    UI: {},
    # Where a server does not read directories, the entries of its skills say what is in them.
    SKILLS: {"directoryRead": True},
    # The gateway has tasks of its own, so what a client says of them goes no further.
    TASKS: {},
}
"""From the gateway to clients: each extension by its id, with its settings. `Gateway.capabilities`
leaves out what a tenant does not have."""

CARRIED_RESULT_TYPES: Final[Mapping[str, frozenset[str] | None]] = {
    "complete": None,
    "input_required": frozenset({"tools/call", "resources/read", "prompts/get"}),
    "task": frozenset({"tools/call"}),
}
"""From servers to clients: each ``resultType``, and its methods; ``None`` for all of them."""


class CarriedCapabilities(dict[str, Any]):
    """Capabilities of a client, reduced to those that Pegboard carries."""


_NONE = CarriedCapabilities()
PLAIN_CAPABILITIES: Final[Mapping[str, Any]] = {"extensions": OWN_EXTENSIONS}
"""What a server of the modern era is told for a client that can do nothing."""


def carried_capabilities(said: Mapping[str, Any]) -> CarriedCapabilities:
    """Return the capabilities of a client that servers are told of.

    A capability or an extension in a wrong shape counts as absent, and so does an unknown one.
    """
    # On the way of every call: once for each request, and nothing is made for a plain client.
    if type(said) is CarriedCapabilities:
        return said
    if not said:
        return _NONE
    carried = CarriedCapabilities()
    for name, value in said.items():
        fields = CARRIED_CAPABILITIES.get(name)
        if fields is not None:
            if (shaped := _in_shape(value, fields)) is not None:
                carried[name] = shaped
        elif name == "extensions":
            for extension, settings in CARRIED_EXTENSIONS.items():
                shaped = _in_shape(object_in(value).get(extension), settings)
                if shaped is not None:
                    carried.setdefault(name, {})[extension] = shaped
    return carried


def declares(capabilities: Mapping[str, Any], extension: str) -> bool:
    """Tell whether a client declares an extension."""
    return isinstance(object_in(capabilities.get("extensions")).get(extension), dict)


def without(capabilities: Mapping[str, Any], extension: str) -> CarriedCapabilities:
    """Return the carried capabilities of a client without an extension."""
    carried = CarriedCapabilities(carried_capabilities(capabilities))
    others = {it: said for it, said in carried.pop("extensions", {}).items() if it != extension}
    if others:
        carried["extensions"] = others
    return carried


def told_capabilities(said: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the capabilities that a server of the modern era is told, with our own extensions."""
    if not said:
        return PLAIN_CAPABILITIES
    carried = carried_capabilities(said)
    return {**carried, "extensions": {**carried.get("extensions", {}), **OWN_EXTENSIONS}}


def is_task(raw: Mapping[str, Any]) -> bool:
    """Tell whether the result of a call is a task, in the shape of either era."""
    # The handshake era has no types: there a task is an object within the result.
    return raw.get("resultType") == "task" or ("task" in raw and "content" not in raw)


def check_result_type(raw: Mapping[str, Any], method: str, *, server: str) -> None:
    """Refuse a result of a type that Pegboard does not carry.

    Raises:
        UnsupportedResultError: it says what the server did, as far as the result tells it.
    """
    kind: object = raw.get("resultType")
    if kind is None or kind == "complete":
        return
    methods = CARRIED_RESULT_TYPES.get(kind, ()) if isinstance(kind, str) else ()
    # A task has no content; with one, it could not be told from a plain result.
    if (methods is not None and method not in methods) or (kind == "task" and "content" in raw):
        raise _unsupported(raw, kind, method, server)


def _in_shape(value: object, fields: Mapping[str, type]) -> dict[str, Any] | None:
    """Return the known fields of an object; ``None`` if it or one of them has a wrong type."""
    if not isinstance(value, dict):
        return None
    given = cast("dict[str, Any]", value)
    has_more = False
    for name, item in given.items():
        kind = fields.get(name)
        if kind is None or item is None:
            has_more = True
        elif not isinstance(item, kind):
            return None
    if not has_more:
        return given
    return {it: item for it, item in given.items() if it in fields and item is not None}


def _unsupported(
    raw: Mapping[str, Any], kind: object, method: str, server: str
) -> UnsupportedResultError:
    did = "It may have done what it was asked to do: look before you repeat the request."
    if kind == "task" and isinstance(number := raw.get("taskId"), str):
        state = raw.get("status")
        now = f" (status {shorten(state)})" if isinstance(state, str) else ""
        did = (
            f"The server has started task {shorten(number)}{now} and works on it; Pegboard "
            "cannot fetch its result. Look before you repeat the request."
        )
    return UnsupportedResultError(
        f"Server {server!r} answered `{method}` with a result of type {shorten(kind)}, which "
        f"Pegboard does not carry there. {did}",
        server=server,
        result_type=kind if isinstance(kind, str) else "",
    )
