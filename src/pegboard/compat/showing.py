"""What may be shown of a server whose configuration nobody has checked yet."""

from collections.abc import Callable

from pegboard.config import ServerConfig

__all__ = ["shown_target"]


def shown_target(config: Callable[[], ServerConfig]) -> str:
    """Return what the server is, in one line without secrets; a mark if it is unusable."""
    try:
        return config().target
    except Exception:  # noqa: BLE001 - a repr must not fail, nor show what it does not understand
        return "<unusable>"
