"""Find an entry that is Pegboard itself: a gateway that serves the file the entry is in."""

from pathlib import Path
from urllib.parse import urlsplit

from pegboard.clients.our_entry import is_pegboard
from pegboard.config import LoadedConfig, ServerConfig, locate_config
from pegboard.doctor.report import Finding, found
from pegboard.errors import ConfigError
from pegboard.hub.sources import is_own_address

__all__ = ["is_itself", "remedy_for_itself", "serves_itself"]


def is_itself(config: ServerConfig, loaded: LoadedConfig, gateway: str | None) -> bool:
    """Tell whether a server is Pegboard itself with the file that was read. Blocking.

    ``gateway`` is the address of a running gateway that serves the file.
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
    """Return the finding for a server that is Pegboard itself."""
    skipped = "started" if config.transport == "stdio" else "checked"
    return found(
        "itself",
        f"Server {config.name!r} is Pegboard itself with this same file, so it was not {skipped}.",
        remedy_for_itself(config),
        server=config.name,
    )


def remedy_for_itself(config: ServerConfig) -> str:
    """Return the remedy for such an entry."""
    return (
        f"Run `pegboard remove {config.name}`. If the file belongs to a client, leave the entry "
        "there, and copy the client's other servers into your own file with `pegboard import`."
    )


def _is_at(config: ServerConfig, gateway: str) -> bool:
    place = urlsplit(gateway)
    return place.port is not None and is_own_address(config, place.hostname or "", place.port)


def _named(args: tuple[str, ...]) -> str | None:
    """Return the configuration file that the command line names."""
    for index, word in enumerate(args):
        if word.startswith("--config="):
            return word.removeprefix("--config=")
        if word == "--config" and index + 1 < len(args):
            return args[index + 1]
    return None
