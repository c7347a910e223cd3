"""The environment of a server's process: which variables a stdio server inherits and receives."""

import os

from pegboard.config.network_variables import network_variables
from pegboard.config.servers import ServerConfig
from pegboard.upstream.stdio.orphans import MARK

__all__ = ["SERVING", "environment_for"]

SERVING = "PEGBOARD_SERVING"
"""The environment variable with the files that parent gateways serve, one per line."""

_INHERITED = frozenset(
    {
        "HOME",
        "LANG",
        "LOGNAME",
        "PATH",
        "SHELL",
        "TERM",
        "TMPDIR",
        "TZ",
        "USER",
        SERVING,
    }
)
"""The variables that every server inherits; any other may hold a secret of the user."""
_INHERITED_FAMILIES = ("LC_", "XDG_")
"""How the names of further inherited variables begin: the locale, and the user's folders."""


def environment_for(config: ServerConfig, mark: str) -> dict[str, str]:
    """Return the environment of a server: harmless variables of ours, its own, and the mark.

    Variables for certificates, proxies and package indexes are among ours, unless the server's
    ``inherit_network`` is false.

    Args:
        config: the server's; its ``shared_env`` and ``env`` override inherited variables.
        mark: identifies the server's processes, so that orphans can be found; see `orphans`.
    """
    inherited = {name: value for name, value in os.environ.items() if _is_inherited(name, value)}
    if config.inherit_network:
        inherited |= network_variables(os.environ)
    return {"PATH": os.defpath, **inherited, **config.shared_env, **config.env, MARK: mark}


def _is_inherited(name: str, value: str) -> bool:
    # A value that begins so is a shell function, which another shell would run.
    is_function = value.startswith("()")
    return (name in _INHERITED or name.startswith(_INHERITED_FAMILIES)) and not is_function
