"""Itself: an entry that is, or would start, a gateway for the very file it stands in."""

from pathlib import Path
from urllib.parse import urlsplit

from pegboard.clients.our_entry import is_pegboard
from pegboard.config import LoadedConfig, ServerConfig, locate_config
from pegboard.doctor.report import Finding, found
from pegboard.errors import ConfigError
from pegboard.hub.sources import is_own_address

__all__ = ["instead_of_itself", "is_itself", "serves_itself"]


def is_itself(config: ServerConfig, loaded: LoadedConfig, gateway: str | None) -> bool:
    """Tell whether a server would be Pegboard with the file that was read. Blocking.

    The gateway is the address of one that serves the file already.
    """
    if not config.enabled:
        return False
    if config.transport != "stdio":
        return gateway is not None and _is_at(config, gateway)
    entry = {"command": config.command, "args": list(config.args)}
    if loaded.path is None or not is_pegboard(config.name, entry) or "--demo" in config.args:
        return False
    folder = Path(config.cwd or "")
    named = _named(config.args)
    try:
        source = None if named is None else folder / Path(named).expanduser()
        served = locate_config(source, environ=config.env, directory=folder).path
        return served is not None and served.resolve() == loaded.path.resolve()
    except (ConfigError, OSError, RuntimeError):
        return False


def serves_itself(config: ServerConfig) -> Finding:
    """Return that a server is Pegboard itself."""
    left = "started" if config.transport == "stdio" else "looked at"
    return found(
        "itself",
        f"Server {config.name!r} is Pegboard itself with this very file, so it was not {left}.",
        instead_of_itself(config),
        server=config.name,
    )


def instead_of_itself(config: ServerConfig) -> str:
    """Return what to do with such an entry."""
    return (
        f"`pegboard remove {config.name}`; or leave it there if the file is that of a client, and "
        "take over its other servers with `pegboard import`."
    )


def _is_at(config: ServerConfig, gateway: str) -> bool:
    place = urlsplit(gateway)
    return place.port is not None and is_own_address(config, place.hostname or "", place.port)


def _named(args: tuple[str, ...]) -> str | None:
    """Return the file that is named on its command line."""
    for index, word in enumerate(args):
        if word.startswith("--config="):
            return word.removeprefix("--config=")
        if word == "--config" and index + 1 < len(args):
            return args[index + 1]
    return None
