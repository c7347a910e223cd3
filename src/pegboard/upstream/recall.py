"""Recall: the tools of servers as a store remembers them, without starting a server or a hub."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, cast

import msgspec

from pegboard.config import ServerConfig
from pegboard.model.lazy_tool import LazyTool
from pegboard.model.names import name_matcher
from pegboard.model.naming import NameTable, mcp
from pegboard.model.tool import Annotations, Tool
from pegboard.storage.store import Store
from pegboard.upstream.depths import TOO_DEEP
from pegboard.upstream.memory_key import SERVERS, memory_key

__all__ = [
    "Recalled",
    "Recollection",
    "annotations_of",
    "is_usable",
    "lazy_tool_of",
    "permission_of",
    "recall",
]


class Recalled(msgspec.Struct, frozen=True, kw_only=True):
    """A tool of a server, as a hub would show it."""

    tool: Tool
    original: str
    """Its name there."""
    raw: Mapping[str, Any]
    """The definition as the server sent it."""


class Recollection(msgspec.Struct, frozen=True, kw_only=True):
    """What is remembered of some servers."""

    tools: Mapping[str, Recalled]
    """By the name that each tool has in a hub with the same configuration."""
    unknown: tuple[ServerConfig, ...]
    """Servers of which nothing is remembered: new ones, and those that were configured anew."""


def recall(configs: Iterable[ServerConfig], store: Store) -> Recollection:
    """Return what a store remembers of the servers that are enabled, in their order.

    Raises:
        StorageError: when it cannot be read.
    """
    enabled = [config for config in configs if config.enabled]
    prefixes = {config.name: config.prefix for config in enabled}

    def naming(server: str, tool: str) -> str:
        prefix = prefixes[server]
        return mcp(server, tool) if prefix is None else prefix + tool

    names, values = NameTable(naming), store.namespace(SERVERS)
    tools: dict[str, Recalled] = {}
    unknown: list[ServerConfig] = []
    for config in enabled:
        stored = values.get(memory_key(config))
        if stored is None:
            unknown.append(config)
        else:
            tools.update(_tools_of(config, _object(stored.value), names))
    return Recollection(tools=tools, unknown=tuple(unknown))


def permission_of(config: ServerConfig) -> Callable[[str], bool]:
    """Return what tells whether a tool may be used, by its original name."""
    if config.allow == ("*",) and not config.deny:
        return lambda _: True
    allowed = name_matcher("allow", config.allow)
    denied = name_matcher("deny", config.deny)
    return lambda name: allowed(name) and not denied(name)


def annotations_of(raw: Mapping[str, Any]) -> Annotations:
    """Return the hints of a definition; those that make no sense are no reason to do without it."""
    title, hints = raw.get("title"), raw.get("annotations")
    if not title and not hints:
        return _NO_HINTS
    try:
        return msgspec.convert({"title": title, **(hints or {})}, Annotations)
    except (TypeError, msgspec.ValidationError):
        return _NO_HINTS


def lazy_tool_of(raw: Mapping[str, Any], name: str, config: ServerConfig) -> Tool:
    """Return a remembered definition as a tool, its schemas as text until somebody needs them.

    They were checked before they were remembered; checking and freezing those of ten thousand
    tools again takes half a second, and three times the memory.
    """
    output = raw.get("outputSchema")
    # Raw where a schema should be: that is what a lazy tool is.
    return LazyTool(
        name=name,
        description=raw.get("description") or "",
        input_schema=cast("Any", _as_text(raw.get("inputSchema") or {})),
        output_schema=None if output is None else cast("Any", _as_text(output)),
        annotations=annotations_of(raw),
        server=config.name,
        tags=config.tags,
        category=config.category,
    )


def is_usable(raw: Mapping[str, Any]) -> bool:
    """Tell whether it is what was checked once: somebody may have edited what is remembered."""
    return (
        isinstance(raw.get("description") or "", str)
        and isinstance(raw.get("inputSchema") or {}, Mapping)
        and isinstance(raw.get("outputSchema"), Mapping | None)
        and TOO_DEEP not in (raw.get("inputSchema"), raw.get("outputSchema"))
    )


_NO_HINTS = Annotations()
_encode = msgspec.json.Encoder().encode


def _tools_of(
    config: ServerConfig, remembered: Mapping[str, Any], names: NameTable
) -> Iterator[tuple[str, Recalled]]:
    permits = permission_of(config)
    given = _object(remembered.get("names"))
    seen: set[str] = set()
    for raw in _objects(remembered.get("tools")):
        original = raw.get("name")
        if not isinstance(original, str) or original in seen or not permits(original):
            continue
        if not is_usable(raw):
            continue
        seen.add(original)
        name = names.assign(config.name, original, wanted=_wanted(given, original, config, names))
        if name is not None:
            tool = lazy_tool_of(raw, name, config)
            yield name, Recalled(tool=tool, original=original, raw=raw)


def _wanted(
    given: Mapping[str, Any], original: str, config: ServerConfig, names: NameTable
) -> str | None:
    """Return the name that a tool had to get in an earlier run, if it should be named alike now."""
    match given.get(original):
        case [str() as should, str() as was] if names.policy_name(config.name, original) == should:
            return was
        case _:
            return None


def _as_text(schema: object) -> msgspec.Raw:
    return msgspec.Raw(_encode(schema))


def _object(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _objects(value: object) -> list[Mapping[str, Any]]:
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("Mapping[str, Any]", it) for it in items if isinstance(it, Mapping)]
