"""Run `pegboard serve`: its options, its log filter, and what it prints at startup."""

import json
import logging
import shlex
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Literal
from urllib.parse import urlsplit, urlunsplit

import anyio
import msgspec
from msgspec.structs import replace

from pegboard.auth import ApiKeys, AuthSettings, load_auth_settings
from pegboard.cli.activity import activity_on
from pegboard.cli.demo import demo_config
from pegboard.cli.entry.error_messages import values_checked
from pegboard.cli.entry.signals import hear_signals_as_usual
from pegboard.cli.exit_codes import INTERRUPTED
from pegboard.cli.files.served_file import claim_file, refuse_foreign_file
from pegboard.cli.terminal.output import warn
from pegboard.cli.terminal.plain_text import counted
from pegboard.config import load_servers
from pegboard.doctor.status import unusable_entries
from pegboard.errors import ConfigError
from pegboard.errors.servers import without_name
from pegboard.model.principal import OPERATOR
from pegboard.observe.server_log import default_log_folder
from pegboard.server import ServeOptions, Serving, claim_stdio, run_http, run_stdio
from pegboard.server.process.instance_discovery import running_instances
from pegboard.server.process.loop_watchdog import WatchedEventLoop
from pegboard.storage import default_url, open_store
from pegboard.storage.open_store import check_url, without_password

__all__ = ["LogFloods", "ServeChoices", "run"]


class ServeChoices(msgspec.Struct, frozen=True, kw_only=True):
    """The command-line options of `pegboard serve`."""

    config: str | None = None
    demo: bool = False
    stdio: bool = False
    host: str = "127.0.0.1"
    port: int = 8765
    surface: Literal["search", "full"] = "search"
    store: str | None = None
    audit: str | None = None
    allow_anonymous: bool = False
    allow_register: bool = False
    allow_host: tuple[str, ...] = ()
    allow_origin: tuple[str, ...] = ()
    drain: float = 30.0
    notice: float = 0.0
    activity: bool | None = None
    verbose: bool = False


_MOST_KINDS = 256


class LogFloods(logging.Filter):
    """Limits how often a log message repeats, and says once that others are left out.

    Records are of one kind when they have the same message template.

    Args:
        most: the records of one kind that pass; as many servers may fail at once, each with a line.
        seconds: the period in which they are counted.
        clock: tells the time.
    """

    def __init__(
        self,
        most: int = 200,
        seconds: float = 60.0,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._most = most
        self._seconds = seconds
        self._clock = clock
        self._seen: dict[tuple[str, int, object], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether a record is written."""
        kind = (record.name, record.levelno, str(record.msg))
        now = self._clock()
        began, count = self._seen.get(kind, (now, 0))
        if now - began >= self._seconds:
            if count > self._most:
                _say(record, f"{count - self._most:,} like it were left out")
            began, count = now, 0
        if len(self._seen) >= _MOST_KINDS and kind not in self._seen:
            self._seen.clear()
        self._seen[kind] = began, count + 1
        if count + 1 == self._most:
            _say(record, f"others like it are left out for {self._seconds:.0f} seconds")
        return count < self._most


def _say(record: logging.LogRecord, words: str) -> None:
    try:
        message = record.getMessage()
    except Exception:  # noqa: BLE001 - values that do not fit: the handler says so
        return
    record.msg, record.args = f"{message} [{words}]", ()


def _leave_server_events_to_the_activity() -> None:
    """Keep the log from saying what a line of the activity says."""
    for handler in logging.getLogger().handlers:
        handler.addFilter(lambda record: not str(record.msg).startswith(_SERVER_EVENTS))


_SERVER_EVENTS = ("connect_failed:", "server_lost:")
_NO_SERVERS = (
    "  No server is configured. `pegboard import` imports those of your MCP clients,",
    "  `pegboard add` adds one, and `pegboard serve --demo` serves four demo servers.",
)
_NONE_USABLE = "  No server of the configuration can be used:"
_EVERY_INTERFACE = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104 - it is not bound here
_NOT_SERVED = ("starting", "down", "tripped", "closed", "disabled", "unusable")
"""The states of servers that cannot be used now, in the order in which they are told."""
_NOWHERE = "none: everything is lost at shutdown"
_FOR_EVERY_CLIENT = "for every client"
_FOR_THE_OWNER = "only over stdio; `--allow-register` lets every client register tools"
_STDIO = "Pegboard uses standard input and output."


def run(options: ServeChoices) -> int:
    """Serve until a signal or Ctrl-C ends the process."""
    hear_signals_as_usual()
    serve = _options_of(options)
    if serve.storage is not None:
        with values_checked():
            check_url(serve.storage)
    claim_file(serve.config)
    refuse_foreign_file(serve.config)
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO if options.verbose else logging.WARNING,
        format="%(levelname)s %(name)s: %(message)s",
    )
    for handler in logging.getLogger().handlers:
        handler.addFilter(LogFloods())
    # The operator wants to see reloads, and which calls shutdown waits for.
    logging.getLogger("pegboard.server").setLevel(logging.INFO)
    # Read now, so that what is printed later is what was in the file at startup.
    auth = AuthSettings() if options.stdio else load_auth_settings(serve.config)
    tell = partial(_tell, options, serve, auth)
    if sys.stderr.isatty() and not options.stdio:
        _say_that_it_starts(serve)
    watched = {"loop_factory": WatchedEventLoop}
    activity = activity_on(sys.stderr, wanted=options.activity, is_quiet_here=options.stdio)
    if activity is not None:
        serve = replace(serve, activity=activity)
        _leave_server_events_to_the_activity()
    try:
        if options.stdio:
            with claim_stdio() as descriptors:
                anyio.run(run_stdio, serve, descriptors, tell, backend_options=watched)
        else:
            anyio.run(run_http, serve, tell, backend_options=watched)
    except KeyboardInterrupt:  # before the signal handlers are set, or after
        return INTERRUPTED
    except ConfigError as error:
        is_taken = isinstance(error.__cause__, OSError) and not options.stdio
        running = _already_there(options) if is_taken else None
        if running is None:
            raise
        raise ConfigError(f"{error.problem} {running}") from error
    finally:
        if activity is not None:
            activity.close()
    return 0


def _say_that_it_starts(serve: ServeOptions) -> None:
    loaded = load_servers(serve.config)
    number = sum(it.enabled for it in loaded.servers)
    configured = len(loaded.servers) + len(unusable_entries(loaded))
    if number:
        some = "" if number == configured else f"{number:,} of "
        warn(f"Starting {some}{counted(configured, 'server')}…")


def _already_there(options: ServeChoices) -> str | None:
    """Say that a gateway of the same user has the port already, if one has."""
    for it in running_instances():
        place = urlsplit(it.address)
        if options.port and place.port == options.port:
            return f"Your own gateway already runs there, as process {it.pid}: {it.address}/mcp"
    return None


def _options_of(options: ServeChoices) -> ServeOptions:
    # The demo keeps nothing in the user's own store.
    storage = options.store if options.demo else options.store or default_url()
    return ServeOptions(
        config=demo_config() if options.demo else options.config,
        storage=storage,
        audit_file=options.audit,
        log_folder=str(default_log_folder()),
        host=options.host,
        port=options.port,
        surface=options.surface,
        allow_hosts=options.allow_host,
        allow_origins=options.allow_origin,
        allow_anonymous=options.allow_anonymous,
        allow_register=options.allow_register,
        drain_seconds=options.drain,
        notice_seconds=options.notice,
    )


def _tell(
    options: ServeChoices, serve: ServeOptions, auth: AuthSettings, serving: Serving, address: str
) -> None:
    """Print what is served, and where, for the user who started it."""
    lines = [*_about_servers(options, serving), *_about_places(serve, auth, serving)]
    if address:
        has_console = serving.gateway.options.console
        lines += _about_address(options, serve, auth, address, has_console=has_console)
    else:
        lines.append(_STDIO)
    for line in lines:
        warn(line)


def _about_servers(options: ServeChoices, serving: Serving) -> Iterator[str]:
    servers, registry = serving.hub.servers, serving.hub.registry
    definitions = sum(registry.is_definition(tool.name) for tool in registry.tools())
    tools = counted(len(registry) - definitions, "tool")
    besides = f", and {counted(definitions, 'registered definition')}" if definitions else ""
    states = Counter(it.state.value for it in servers.values())
    entries = unusable_entries(serving.hub.loaded)
    unusable = {name: it for name, it in entries.items() if name not in servers}
    states["unusable"] = len(unusable)
    others = [f"{states[it]:,} {it}" for it in _NOT_SERVED if states[it]]
    notes = f" ({', '.join(others)})" if others else ""
    where = f" --config {shlex.quote(options.config)}" if options.config else ""
    served = states.total() - sum(states[it] for it in _NOT_SERVED)
    yield f"Pegboard serves {tools} of {counted(served, 'server')}{notes}{besides}."
    for name, it in servers.items():
        why = f"; `pegboard doctor {name}{where}` says why" if it.state == "down" else ""
        yield f"  {name:<16} {it.state}, {counted(it.tool_count, 'tool')}{why}"
    if not servers:
        yield from _why_none(serving)
    for name, reason in unusable.items():
        yield f"  {name:<16} unusable: {without_name(name, reason)}"


def _why_none(serving: Serving) -> Iterator[str]:
    """Say what is wrong with the configured servers, or how to add some."""
    faults = [it for it in serving.hub.loaded.problems if it.severity == "error"]
    if not faults:
        if serving.hub.loaded.skills is None:
            yield from _NO_SERVERS
        return
    yield _NONE_USABLE
    for it in faults:
        if it.server is None:
            yield f"    {it.message}"


def _about_places(serve: ServeOptions, auth: AuthSettings, serving: Serving) -> Iterator[str]:
    if not isinstance(serve.config, Mapping):
        yield f"  {'configuration':<16} {serving.hub.loaded.path or 'none found'}"
    if serving.hub.loaded.skills is not None:
        yield f"  {'skills':<16} {serving.hub.loaded.skills}; `pegboard skills list` lists them"
    kept = _NOWHERE if serve.storage is None else without_password(serve.storage)
    yield f"  {'store':<16} {kept}"
    if serve.storage is None and auth.keys:
        yield f"  {'API keys':<16} {without_password(default_url())}"


def _about_address(
    options: ServeChoices,
    serve: ServeOptions,
    auth: AuthSettings,
    address: str,
    *,
    has_console: bool,
) -> Iterator[str]:
    bound, address = address, _address_to_connect_to(address)
    face = "a few tools that find the others" if options.surface == "search" else "all tools"
    yield f"  {address}/mcp        {face}; also /mcp-full, /mcp-search and /mcp/<server>"
    yield f"  {address}/sse        the same for older clients"
    yield f"  {address}/healthz    also /readyz and /metrics"
    if has_console:
        yield f"  {address}/console    pages for people; `pegboard console` opens them"
    entry: dict[str, Any] = {"url": f"{address}/mcp"}
    if auth.required:
        secret = "pb_..." if auth.keys else "<token>"
        entry["headers"] = {"Authorization": f"Bearer {secret}"}
    if auth.keys and not _has_keys(serve.storage):
        where = f" --store {without_password(options.store)}" if options.store else ""
        command = f"`pegboard keys create{where}`"
        yield f"There is no API key yet, so no client is accepted; {command} creates one."
    if not auth.required:
        allowed = auth.allow_register or options.allow_register
        yield f"  {'register_tool':<16} {_FOR_EVERY_CLIENT if allowed else _FOR_THE_OWNER}"
    if address != bound:
        host = urlsplit(address).hostname
        yield f"Other machines use a name or an address of this machine in place of {host}."
    servers = {"mcpServers": {"pegboard": entry}}
    yield f"For the file of your client: {json.dumps(servers)}"


def _address_to_connect_to(address: str) -> str:
    """Return an address that clients can use: one that stands for all interfaces is none."""
    parts = urlsplit(address)
    if parts.hostname not in _EVERY_INTERFACE:
        return address
    # An address of this machine: which of its names others use is unknown here.
    return urlunsplit(parts._replace(netloc=f"{_EVERY_INTERFACE[parts.hostname]}:{parts.port}"))


def _has_keys(storage: str | None) -> bool:
    # Without a store, the gateway uses the keys in the user's own store.
    with open_store(storage or default_url(), tenant=OPERATOR) as store, ApiKeys(store) as keys:
        return bool(keys.list())
