"""The tools of the user's servers: from a running gateway, or from the cache in the store."""

import os
import shlex
from collections.abc import Collection, Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from pegboard.cli.catalogue.running_gateway import RunningGateway, find_gateway
from pegboard.cli.entry.error_messages import values_checked
from pegboard.cli.terminal.output import warn
from pegboard.cli.terminal.plain_text import placed
from pegboard.config import LoadedConfig, ServerConfig, load_servers
from pegboard.errors import ConfigError, ServerUnavailableError, ToolNotFoundError
from pegboard.errors.servers import without_name
from pegboard.model import Tool
from pegboard.model.tool import Definition, definition_of
from pegboard.model.tool_names import mcp, nearest_names
from pegboard.search.options import SearchOptions, query_of
from pegboard.search.searcher import SearchResponse
from pegboard.storage import Store, default_url, open_store
from pegboard.storage.open_store import index_place
from pegboard.upstream.catalog.failed_starts import FailedStarts
from pegboard.upstream.catalog.offline_catalog import CachedTool, CachedTools, read_cached_tools

if TYPE_CHECKING:
    from pegboard.search.engine import SearchEngine

__all__ = ["Catalogue", "Origin", "Places", "find_tool", "open_catalogue", "tell_failures"]

_HOW_TO_BEGIN = (
    "so there are no tools. `pegboard import` imports the servers of your MCP clients, "
    "`pegboard add` adds one, and `pegboard serve --demo` serves four demo servers."
)


class Places(msgspec.Struct, frozen=True, kw_only=True):
    """Where a command looks for tools."""

    config: str | None = None
    store: str | None = None
    alone: bool = False
    """Use no running gateway."""
    refresh: bool = False
    """Start the servers, even if their tools or failures are cached."""
    patience: float | None = None
    """How many seconds a server may take to start, instead of its configured limit."""
    wanted: str | None = None
    """The tool that is about to be used; its server is started, even if that failed lately."""

    @property
    def option(self) -> str:
        """What another command needs behind it to read the same configuration."""
        return "" if self.config is None else f" --config {shlex.quote(self.config)}"


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Where a tool is called: the server to start or to ask, and the tool's name there."""

    server: ServerConfig
    name: str
    is_gateway: bool = False


class Catalogue(Protocol):
    """Tools that can be listed, described and searched."""

    @property
    def is_gateway(self) -> bool:
        """Whether a running gateway has the tools."""
        ...

    @property
    def tools(self) -> Mapping[str, Tool]:
        """All of them by name, in the order of the names."""
        ...

    def definition(self, tool: Tool) -> Definition:
        """Return the definition of a tool that clients see."""
        ...

    def search(self, text: str, options: SearchOptions) -> SearchResponse:
        """Return the tools that match.

        Raises:
            InvalidQueryError: when the query is invalid.
        """
        ...

    def origin(self, tool: Tool) -> Origin | None:
        """Return where a tool is called; ``None`` if it is only a definition."""
        ...

    @property
    def places(self) -> Places:
        """Where the tools come from."""
        ...

    def disabled(self) -> Mapping[str, str]:
        """Return the prefix of tool names for each disabled server."""
        ...

    def failures(self) -> Mapping[str, str]:
        """Return why servers could not be started, by their names."""
        ...

    def down(self) -> Mapping[str, str]:
        """Return the prefix of tool names for each server that is down."""
        ...

    def note_refused(self, tool: str, code: str) -> None:
        """Record, where calls are counted, a call of a tool that is not there."""
        ...


@contextmanager
def open_catalogue(places: Places) -> Generator[Catalogue]:
    """Give the tools of the configured servers; servers that are not cached are started.

    Raises:
        ConfigError: when the configuration cannot be used, or there is none.
        StorageError: when the store cannot be used.
    """
    if not (places.alone or places.refresh):
        gateway = find_gateway(places.config, places.store)
        if gateway is not None:
            yield GatewayCatalogue(gateway, places)
            return
    loaded = load_servers(places.config)
    for problem in loaded.problems:
        warn(placed(problem, loaded.path))
    with values_checked():
        opened = open_store(places.store or default_url())
    with opened as store:
        found, failed = _cached(loaded, store, places)
        catalogue = CachedCatalogue(loaded, found, store, places=places, failed=failed)
        yield catalogue
        catalogue.save_index()


def find_tool(catalogue: Catalogue, name: str, *, or_only_match: bool = False) -> Tool:
    """Return a tool by its name, and report failed servers that may have it.

    With ``or_only_match``, the name that its server gives it is enough, if no other has that.

    Raises:
        ToolNotFoundError: when there is none, with names of others that are like it.
        ServerUnavailableError: when the server that would have it is down.
    """
    tool = catalogue.tools.get(name)
    if tool is None and or_only_match:
        matches = _called_by_their_server(name, catalogue.tools.values())
        tool = matches[0] if len(matches) == 1 else None
    if tool is not None:
        tell_failures(catalogue, [tool.server or ""])
        return tool
    option = catalogue.places.option
    owner = _owner(name, catalogue.down())
    if owner is not None:
        reason = catalogue.failures()[owner]
        said = without_name(owner, reason)
        words = f"Tool {name!r} is missing, because server {owner!r} is down: {said}"
        down = ServerUnavailableError(words, server=owner, tool=name)
        # The notes of an error are what to do about it: they are printed behind it.
        down.add_note(f"`pegboard doctor {owner}{option}` says more.")
        raise down
    tell_failures(catalogue)
    near = _near(name, catalogue.tools.values())
    missing = ToolNotFoundError(name, nearest=near)
    for server, prefix in catalogue.disabled().items():
        if prefix and name.startswith(prefix):
            missing.add_note(
                f"Server {server!r} is disabled; `pegboard enable {server}{option}` enables it."
            )
    if not near:
        missing.add_note("`pegboard search` and `pegboard tools` show which tools there are.")
    raise missing


def tell_failures(catalogue: Catalogue, servers: Collection[str] | None = None) -> None:
    """Report the servers that could not be started: all, or only these."""
    if catalogue.is_gateway:
        # It looks after its servers, and `pegboard status` tells.
        return
    option = catalogue.places.option
    failed = {
        name: reason
        for name, reason in catalogue.failures().items()
        if servers is None or name in servers
    }
    for reason in failed.values():
        warn(reason)
    if failed:
        name, it = ("NAME", "one") if len(failed) > 1 else (next(iter(failed)), "it")
        warn(
            f"  `pegboard doctor {name}{option}` says why; `pegboard disable {name}{option}` "
            f"leaves {it} out; `--refresh` tries again."
        )


def _owner(name: str, prefixes: Mapping[str, str]) -> str | None:
    """Return the server whose tool names begin like this one."""
    fitting = [it for it, prefix in prefixes.items() if prefix and name.startswith(prefix)]
    return max(fitting, key=lambda it: len(prefixes[it]), default=None)


class GatewayCatalogue:
    """The tools of a running gateway."""

    is_gateway = True

    def __init__(self, gateway: RunningGateway, places: Places) -> None:
        self.places = places
        self._gateway = gateway
        self._shown: dict[str, Mapping[str, Any] | None] | None = None
        self._tools: dict[str, Tool] = {}

    @property
    def tools(self) -> Mapping[str, Tool]:
        """All of them by name, in the order of the names."""
        if self._shown is None:
            listed = self._gateway.tools()
            self._tools = {it.tool.name: it.tool for it in listed}
            self._shown = {it.tool.name: it.raw for it in listed}
        return self._tools

    def definition(self, tool: Tool) -> Definition:
        """Return the definition of a tool that clients see."""
        return definition_of(tool, (self._shown or {}).get(tool.name))

    def search(self, text: str, options: SearchOptions) -> SearchResponse:
        """Return what the gateway finds, among it skills."""
        return self._gateway.search(text, {**options, "documents": True})

    def origin(self, tool: Tool) -> Origin | None:
        """Return the gateway as a server that has this tool alone, or few others."""
        if (self._shown or {}).get(tool.name) is None:
            return None
        server = self._gateway.as_server(tool.server or "")
        return Origin(server=server, name=tool.name, is_gateway=True)

    def disabled(self) -> Mapping[str, str]:
        """Return the prefix of tool names for each disabled server."""
        off = [it["name"] for it in self._gateway.servers() if it.get("state") == "disabled"]
        return {name: mcp(name, "") for name in off}

    def failures(self) -> Mapping[str, str]:
        """Return why servers are down, by their names."""
        down = [it for it in self._gateway.servers() if it.get("state") in ("down", "tripped")]
        return {it["name"]: it.get("last_error") or "Its log says why." for it in down}

    def down(self) -> Mapping[str, str]:
        """Return the prefix of tool names for each server that is down."""
        return {name: mcp(name, "") for name in self.failures()}

    def note_refused(self, tool: str, code: str) -> None:
        """Let the gateway record a call of a tool that it does not have."""
        self._gateway.note_refused(tool, code)


class CachedCatalogue:
    """The tools that are cached in a store, and the definitions that are registered there."""

    is_gateway = False

    def __init__(
        self,
        loaded: LoadedConfig,
        found: CachedTools,
        store: Store,
        *,
        places: Places,
        failed: Mapping[str, str],
    ) -> None:
        self.places = places
        self._servers = {config.name: config for config in loaded.servers}
        self._cached: Mapping[str, CachedTool] = found.tools
        self._store = store
        self._failed = failed
        # What a server offers hides a definition of the same name, as in a gateway.
        tools = {it.tool.name: it.tool for it in store.load_all()}
        tools |= {name: it.tool for name, it in found.tools.items()}
        if not tools:
            _explain_nothing(loaded)
        self._tools = dict(sorted(tools.items()))
        self._engine: SearchEngine | None = None

    @property
    def tools(self) -> Mapping[str, Tool]:
        """All of them by name, in the order of the names."""
        return self._tools

    def definition(self, tool: Tool) -> Definition:
        """Return the definition of a tool that clients see."""
        cached = self._cached.get(tool.name)
        return definition_of(tool, None if cached is None else cached.raw)

    def search(self, text: str, options: SearchOptions) -> SearchResponse:
        """Return the tools that match, by the index that is kept beside the store."""
        # For one question, starting more threads takes longer than they save.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        from pegboard.registry.usage_boost import UsageBoost  # noqa: PLC0415 - only to search
        from pegboard.search.engine import DEFAULT_METHOD, SearchEngine  # noqa: PLC0415 - the same
        from pegboard.search.evaluation import Definitions  # noqa: PLC0415 - the same

        used = UsageBoost(self._store.usage).current()
        query = query_of(text, options, boost=lambda name: used.get(name, 0.0))
        definitions = Definitions(self._tools.values())
        index = index_place(self._store)
        engine = SearchEngine(lambda: definitions, index_path=index, once=True)
        self._engine = engine
        return engine.search(query, method=options.get("method", DEFAULT_METHOD))

    def save_index(self) -> None:
        """Keep the index, if one was built, for the next command."""
        if self._engine is not None:
            self._engine.save_index()

    def origin(self, tool: Tool) -> Origin | None:
        """Return the server of a tool."""
        cached = self._cached.get(tool.name)
        if cached is None or tool.server is None:
            return None
        return Origin(server=self._servers[tool.server], name=cached.original)

    def disabled(self) -> Mapping[str, str]:
        """Return the prefix of tool names for each disabled server."""
        return {it.name: it.tool_name("") for it in self._servers.values() if not it.enabled}

    def failures(self) -> Mapping[str, str]:
        """Return why servers could not be started, by their names."""
        return self._failed

    def down(self) -> Mapping[str, str]:
        """Return the prefix of tool names for each server that is down."""
        return {name: self._servers[name].tool_name("") for name in self._failed}

    def note_refused(self, tool: str, code: str) -> None:
        """Record nothing: without a gateway, only a call of a tool is counted."""


def _explain_nothing(loaded: LoadedConfig) -> None:
    if loaded.path is None:
        raise ConfigError(f"There is no configuration, {_HOW_TO_BEGIN}", is_missing=True)
    if not loaded.servers and not any(
        it.severity == "error" and it.server is not None for it in loaded.problems
    ):
        raise ConfigError(
            f"There is no server in this file, {_HOW_TO_BEGIN}",
            path=str(loaded.path),
            is_missing=True,
        )
    if loaded.servers and not any(config.enabled for config in loaded.servers):
        warn(f"All servers of {loaded.path} are disabled; `pegboard enable NAME` enables one.")


def _cached(
    loaded: LoadedConfig, store: Store, places: Places
) -> tuple[CachedTools, Mapping[str, str]]:
    """Return the cached tools of the servers, and why some servers could not be started."""
    enabled = tuple(config for config in loaded.servers if config.enabled)
    found = read_cached_tools(enabled, store)
    cold = enabled if places.refresh else found.unknown
    if not cold:
        return found, {}
    failures = FailedStarts(store)
    failed: dict[str, str] = {}
    if not places.refresh:
        wanted = _owner(places.wanted or "", {it.name: it.tool_name("") for it in enabled})
        before = {it.name: failures.get(it) for it in cold if it.name != wanted}
        failed = {name: it.error for name, it in before.items() if it is not None and it.is_fresh}
        cold = tuple(it for it in cold if it.name not in failed)
    if cold:
        from pegboard.cli.catalogue.prefetch import start_servers  # noqa: PLC0415 - a second to import

        now = start_servers(cold, places.store or default_url(), patience=places.patience)
        if places.patience is None:
            # With more time, the server may start.
            failures.note(cold, now)
        failed |= now
        found = read_cached_tools(enabled, store)
    return found, failed


def _near(name: str, tools: Iterable[Tool]) -> list[str]:
    """Return names like this one, also of tools that are called so by their server."""
    known = list(tools)
    near = nearest_names(name, [tool.name for tool in known])
    whole = [tool.name for tool in _called_by_their_server(name, known)]
    return list(dict.fromkeys([*whole, *near]))[:3]


def _called_by_their_server(name: str, tools: Iterable[Tool]) -> list[Tool]:
    return [tool for tool in tools if tool.name.endswith(f"_{name}")]
