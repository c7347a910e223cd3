"""Cached tools: read the tools of servers from a store, without starting a server or a hub."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar, cast

import msgspec

from pegboard.config import ServerConfig
from pegboard.model.hidden_characters import is_plain_json, visible_definition
from pegboard.model.json_values import object_in
from pegboard.model.lazy import LazyTool
from pegboard.model.tool import Annotations, Tool
from pegboard.model.tool_names import NameTable, name_matcher
from pegboard.storage.store import Store
from pegboard.upstream.messages.nesting_limit import TOO_DEEP

__all__ = [
    "DAY",
    "KEPT_FOR",
    "SERVERS",
    "CachedTool",
    "CachedTools",
    "annotations_of",
    "catalog_key",
    "is_app_only",
    "is_usable",
    "lazy_tool_of",
    "permission_of",
    "read_cached_tools",
]

T = TypeVar("T")

SERVERS = "servers"
"""The namespace of a store that holds the cached catalogs."""
DAY = 86_400.0
KEPT_FOR = 90 * DAY
"""Seconds after which an unused entry is removed: every new token makes a new key."""


class CachedTool(msgspec.Struct, frozen=True, kw_only=True):
    """A cached tool of a server, as a hub would show it."""

    tool: Tool
    original: str
    """Its name on the server."""
    text: msgspec.Raw
    """The definition, with hidden characters as escapes; few of thousands are ever parsed."""

    @property
    def raw(self) -> Mapping[str, Any]:
        """The definition, parsed."""
        return msgspec.json.decode(self.text)


class CachedTools(msgspec.Struct, frozen=True, kw_only=True):
    """The cached tools of some servers."""

    tools: Mapping[str, CachedTool]
    """By the name of each tool in a hub with the same configuration."""
    unknown: tuple[ServerConfig, ...]
    """Servers that are not in the cache: new ones, and those whose configuration changed."""


def catalog_key(config: ServerConfig) -> str:
    """Return a key that changes with each setting that may change the tools, without secrets."""
    identity = (
        config.name,
        config.transport,
        config.command,
        config.args,
        {**config.shared_env, **config.env},
        config.cwd,
        config.url,
        dict(config.headers),
        # The credential may decide which tools the server offers.
        config.bearer_token,
        None if config.oauth is None else (config.oauth.client_id, config.oauth.scopes),
        None if config.tls is None else config.tls.client_cert,
    )
    # Not JSON: an environment may hold text that is not valid Unicode.
    return hashlib.sha256(repr(identity).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def read_cached_tools(configs: Iterable[ServerConfig], store: Store) -> CachedTools:
    """Return the cached tools of the enabled servers, in their order.

    Raises:
        StorageError: when the store cannot be read.
    """
    enabled = [config for config in configs if config.enabled]
    by_name = {config.name: config for config in enabled}

    def naming(server: str, tool: str) -> str:
        return by_name[server].tool_name(tool)

    names, values = NameTable(naming), store.namespace(SERVERS)
    tools: dict[str, CachedTool] = {}
    unknown: list[ServerConfig] = []
    for config in enabled:
        stored = values.text(catalog_key(config))
        if stored is None:
            unknown.append(config)
        else:
            tools.update(_tools_of(config, _read_or(stored, _CachedDefinitions, _NOTHING), names))
    return CachedTools(tools=tools, unknown=tuple(unknown))


def permission_of(config: ServerConfig) -> Callable[[str], bool]:
    """Return a function that tells whether a tool is allowed, by its original name."""
    if config.allow == ("*",) and not config.deny:
        return lambda _: True
    allowed = name_matcher("allow", config.allow)
    denied = name_matcher("deny", config.deny)
    return lambda name: allowed(name) and not denied(name)


def annotations_of(raw: Mapping[str, Any]) -> Annotations:
    """Return the hints of a definition; invalid hints are ignored."""
    title, hints = raw.get("title"), raw.get("annotations")
    if not title and not hints:
        return _NO_HINTS
    try:
        return msgspec.convert({"title": title, **(hints or {})}, Annotations)
    except (TypeError, msgspec.ValidationError):
        return _NO_HINTS


def lazy_tool_of(raw: Mapping[str, Any], name: str, config: ServerConfig) -> Tool:
    """Return a cached definition as a tool, whose schemas stay text until they are needed.

    They were validated before they were cached; validating and freezing those of ten thousand
    tools again takes half a second, and three times the memory.
    """
    output = raw.get("outputSchema")
    return _lazy_tool(
        name,
        config,
        description=raw.get("description") or "",
        schemas=(_as_text(raw.get("inputSchema") or {}), output and _as_text(output)),
        annotations=annotations_of(raw),
        app_only=is_app_only(raw.get("_meta")),
    )


def is_app_only(meta: object) -> bool:
    """Tell by the ``_meta`` of a definition whether no model may be offered the tool."""
    said: object = object_in(object_in(meta).get("ui")).get("visibility")
    return isinstance(said, list) and "model" not in cast("list[object]", said)


def is_usable(raw: Mapping[str, Any]) -> bool:
    """Tell whether a cached definition is still valid: the cache may have been edited."""
    return (
        isinstance(raw.get("description") or "", str)
        and isinstance(raw.get("inputSchema") or {}, Mapping)
        and isinstance(raw.get("outputSchema"), Mapping | None)
        and TOO_DEEP not in (raw.get("inputSchema"), raw.get("outputSchema"))
    )


class _CachedDefinitions(msgspec.Struct):
    tools: list[msgspec.Raw] = []
    names: dict[str, Any] = {}


_NULL = msgspec.Raw(b"null")


class _Definition(msgspec.Struct, rename="camel"):
    """The parts of a definition that are needed at once; its schemas stay text."""

    name: str
    description: str | None = None
    title: Any = None
    annotations: Any = None
    input_schema: msgspec.Raw = _NULL
    output_schema: msgspec.Raw = _NULL
    meta: Any = msgspec.field(default=None, name="_meta")


_NO_HINTS = Annotations()
_NOTHING = _CachedDefinitions()
_NO_SCHEMA = msgspec.Raw(b"{}")
_OBJECT = ord("{")
_encode = msgspec.json.Encoder().encode
_definitions = msgspec.json.Decoder(_Definition)


def _tools_of(
    config: ServerConfig, cached: _CachedDefinitions, names: NameTable
) -> Iterator[tuple[str, CachedTool]]:
    permits = permission_of(config)
    given = cached.names
    seen: set[str] = set()
    for text in cached.tools:
        try:
            if not is_plain_json(memoryview(text).tobytes()):
                text = msgspec.Raw(_encode(visible_definition(msgspec.json.decode(text))))  # noqa: PLW2901 - what is shown of it
            it = _definitions.decode(text)
            schemas = _schemas_of(it)
        except msgspec.MsgspecError:
            continue
        if it.name in seen or not permits(it.name):
            continue
        seen.add(it.name)
        wanted = _wanted(given, it.name, config, names) if given else None
        name = names.assign(config.name, it.name, wanted=wanted)
        if name is not None:
            hints = {"title": it.title, "annotations": it.annotations}
            tool = _lazy_tool(
                name,
                config,
                description=it.description or "",
                schemas=schemas,
                annotations=annotations_of(hints),
                app_only=is_app_only(it.meta),
            )
            yield name, CachedTool(tool=tool, original=it.name, text=text)


def _schemas_of(it: _Definition) -> tuple[msgspec.Raw, msgspec.Raw | None]:
    """Return the input schema, and the output schema if there is one.

    Raises:
        msgspec.ValidationError: when one of them is not a schema.
    """
    schema, output = it.input_schema, it.output_schema
    if not _is_object(schema):
        # Some servers write null or false for no schema.
        if msgspec.json.decode(schema):
            raise msgspec.ValidationError("It is not a schema.")
        schema = _NO_SCHEMA
    if output is _NULL:
        return schema, None
    if not _is_object(output) and msgspec.json.decode(output) is not None:
        raise msgspec.ValidationError("It is not a schema.")
    return schema, output if _is_object(output) else None


def _is_object(text: msgspec.Raw) -> bool:
    return memoryview(text)[0] == _OBJECT


def _lazy_tool(
    name: str,
    config: ServerConfig,
    *,
    description: str,
    schemas: tuple[msgspec.Raw, msgspec.Raw | None],
    annotations: Annotations,
    app_only: bool,
) -> Tool:
    # A lazy tool has raw text in place of its schemas.
    return LazyTool(
        name=name,
        description=description,
        input_schema=cast("Any", schemas[0]),
        output_schema=cast("Any", schemas[1]),
        annotations=annotations,
        server=config.name,
        tags=config.tags,
        category=config.category,
        app_only=app_only,
    )


def _wanted(
    given: Mapping[str, Any], original: str, config: ServerConfig, names: NameTable
) -> str | None:
    """Return the changed name of a tool from an earlier run, if it still applies."""
    match given.get(original):
        case [str() as should, str() as was] if names.policy_name(config.name, original) == should:
            return was
        case _:
            return None


def _as_text(schema: object) -> msgspec.Raw:
    return msgspec.Raw(_encode(schema))


def _read_or(text: bytes, kind: type[T], otherwise: T) -> T:
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.MsgspecError:
        return otherwise
