"""Shell completion of the names of tools, servers and keys that are stored."""

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from typer._click.shell_completion import CompletionItem  # pyright: ignore[reportPrivateUsage]

from pegboard.cli.files.user_file import open_file
from pegboard.model import Tool
from pegboard.model.json_values import object_in
from pegboard.model.principal import DEFAULT_TENANT, OPERATOR
from pegboard.storage import Store, default_url
from pegboard.storage.maintenance import open_existing

__all__ = ["offer_names"]

Names = Callable[[Any], Iterable[str]]
"""Takes the context of a command, with the options that are on the line already."""

# Some shells read what is offered as a piece of program, and others split it; we would read what
# begins with a hyphen as an option.
_PLAIN = re.compile(r"[\w.@+/][\w.@+/-]*=?")


def offer_names(command: Any, path: tuple[str, ...] = ()) -> None:
    """Complete the parameters of a command and its subcommands with stored names.

    Behind a tool, these are the names of its arguments.

    It reads only the user's file and the store. It starts no server, reads no secret, and opens no
    keyring, which might ask for a password. So it does not know the tools of a server that has a
    secret in the keyring.
    """
    # Nothing may be printed: the user is in the middle of typing a line.
    logging.getLogger("pegboard").addHandler(logging.NullHandler())
    for parameter in command.params:
        is_server = "--server" in parameter.opts
        names = _servers if is_server else _OFFERED.get((*path, parameter.name))
        if names is not None:
            parameter.shell_complete = _completing(names)
    for name, inner in getattr(command, "commands", {}).items():
        offer_names(inner, (*path, name))


def _arguments(context: Any) -> Iterable[str]:
    """Return the arguments that the tool on the line takes and that are not there yet."""
    found = _known_tools(context).get(context.params.get("tool") or "")
    schema: Any = {} if found is None else found.input_schema
    given = {it.partition("=")[0].rstrip(":") for it in context.params.get("arguments") or ()}
    return [f"{it}=" for it in object_in(schema.get("properties")) if it not in given]


def _completing(names: Names) -> Callable[[Any, str], list[CompletionItem]]:
    def complete(context: Any, incomplete: str) -> list[CompletionItem]:
        known = sorted({it for it in names(context) if it.startswith(incomplete)})
        return [CompletionItem(it) for it in known if _PLAIN.fullmatch(it)]

    return complete


def _servers(context: Any) -> Iterable[str]:
    return open_file(context.params.get("config")).entries


def _tools(context: Any) -> Iterable[str]:
    return _known_tools(context)


def _known_tools(context: Any) -> Mapping[str, Tool]:
    from pegboard.config import load_servers  # noqa: PLC0415 - only for tools
    from pegboard.upstream.catalog.offline_catalog import read_cached_tools  # noqa: PLC0415 - the same

    store = _store(context, DEFAULT_TENANT)
    if store is None:
        return {}
    with store:
        loaded = load_servers(context.params.get("config"), reads_secrets=False)
        found = read_cached_tools(loaded.servers, store)
        tools = {it.tool.name: it.tool for it in store.load_all()}
        return tools | {name: it.tool for name, it in found.tools.items()}


def _keys(context: Any) -> Iterable[str]:
    store = _store(context, OPERATOR)
    if store is None:
        return []
    with store:
        kept = store.namespace("api_keys").items()
    return [key for key, it in kept.items() if not object_in(it.value).get("revoked")]


def _store(context: Any, tenant: str) -> Store | None:
    return open_existing(context.params.get("store") or default_url(), tenant=tenant)


_OFFERED: dict[tuple[str, ...], Names] = {
    ("call", "tool"): _tools,
    ("call", "arguments"): _arguments,
    ("show", "tool"): _tools,
    ("doctor", "names"): _servers,
    ("disable", "names"): _servers,
    ("enable", "names"): _servers,
    ("remove", "names"): _servers,
    ("upgrade", "name"): _servers,
    ("keys", "revoke", "ids"): _keys,
    ("keys", "rotate", "key"): _keys,
}
"""By command and parameter."""
