"""Itself: an entry that starts a gateway for the very file it stands in."""

from pathlib import Path

from pegboard.clients.our_entry import is_pegboard
from pegboard.config import LoadedConfig, ServerConfig, locate_config
from pegboard.doctor.finding import Finding, found
from pegboard.errors import ConfigError

__all__ = ["instead_of_itself", "is_itself", "serves_itself"]


def is_itself(config: ServerConfig, loaded: LoadedConfig) -> bool:
    """Tell whether a server would be Pegboard with the file that was read. Blocking."""
    entry = {"command": config.command, "args": list(config.args)}
    if loaded.path is None or config.transport != "stdio" or not is_pegboard(config.name, entry):
        return False
    if not config.enabled or "--demo" in config.args:
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
    return found(
        "itself",
        f"Server {config.name!r} is Pegboard itself with this very file, so it was not started.",
        instead_of_itself(config),
        server=config.name,
    )


def instead_of_itself(config: ServerConfig) -> str:
    """Return what to do with such an entry."""
    return (
        f"`pegboard remove {config.name}`; or leave it there if the file is that of a client, and "
        "take over its other servers with `pegboard import`."
    )


def _named(args: tuple[str, ...]) -> str | None:
    """Return the file that is named on its command line."""
    for index, word in enumerate(args):
        if word.startswith("--config="):
            return word.removeprefix("--config=")
        if word == "--config" and index + 1 < len(args):
            return args[index + 1]
    return None
