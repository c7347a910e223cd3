"""A ServerConfig written as an entry of a file."""

from typing import Any, cast

import msgspec

from pegboard.config.servers import ServerConfig
from pegboard.errors import ConfigError

__all__ = ["entry_of"]


def entry_of(config: ServerConfig) -> dict[str, Any]:
    """Return the entry that `load_servers` reads as this server, with everything not the default.

    Values stand in it as they are, secrets among them: put variables in their place before you
    write it to a file.

    Raises:
        ConfigError: for a server object of this process, which no file can hold.
    """
    if config.transport == "memory":
        raise ConfigError(
            f"Server {config.name!r} is an object of this process and cannot be written to a file."
        )
    fields = cast("dict[str, Any]", msgspec.to_builtins(config))
    entry = {"type": fields.pop("transport"), **fields}
    for derived in ("name", "secrets"):
        entry.pop(derived, None)
    if config.oauth is not None and not entry["oauth"]:
        entry["oauth"] = True
    return {field: _escaped(value) for field, value in entry.items() if value != {}}


def _escaped(value: object) -> object:
    if isinstance(value, str):
        return value.replace("${", "$${")
    if isinstance(value, dict):
        return {key: _escaped(it) for key, it in cast("dict[str, object]", value).items()}
    if isinstance(value, list | tuple):
        return [_escaped(it) for it in cast("list[object]", value)]
    return value
