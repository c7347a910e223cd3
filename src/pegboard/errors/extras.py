"""The commands that install Pegboard or one of its optional extras, for error messages."""

import sys

__all__ = ["install_extra", "install_tool"]

_PACKAGE = "pegboard"


def install_extra(extra: str) -> str:
    """Return the command that installs an extra from where Pegboard itself was installed."""
    origin = _origin()
    # A checkout that is worked on stays one.
    editable = "--editable " if origin.get("dir_info") == {"editable": True} else ""
    return f"{_installer(origin)} {editable}'{_requirement(origin, f'[{extra}]')}'"


def install_tool() -> str:
    """Return the command by which uv installs Pegboard permanently, from the same source."""
    return f"uv tool install '{_requirement(_origin())}'"


def _installer(origin: dict[str, object]) -> str:
    """Return what installs packages into this environment."""
    from importlib.util import find_spec  # noqa: PLC0415 - only for an error
    from pathlib import Path  # noqa: PLC0415
    from shlex import quote  # noqa: PLC0415

    if find_spec("pip") is not None:
        return "pip install"
    # Made by uv: another `pip` would install it elsewhere. `make setup` has a uv of its own.
    own = Path(_folder(origin) or ".", ".tools", "bin", "uv")
    uv = str(own) if own.is_absolute() and own.exists() else "uv"
    return f"{quote(uv)} pip install --python {quote(sys.executable)}"


def _folder(origin: dict[str, object]) -> str:
    """Return the folder that Pegboard was installed from; empty if it was none."""
    url = str(origin.get("url") or "")
    if not url.startswith("file://") or "dir_info" not in origin:
        return ""
    from urllib.request import url2pathname  # noqa: PLC0415 - only for an error

    return url2pathname(url.removeprefix("file://"))


def _requirement(origin: dict[str, object], extra: str = "") -> str:
    url = str(origin.get("url") or "")
    kind = origin.get("vcs_info")
    if isinstance(kind, dict) and "vcs" in kind:
        return f"{_PACKAGE}{extra} @ {kind['vcs']}+{url}"
    folder = _folder(origin)
    if folder:
        return f"{folder}{extra}"
    return f"{_PACKAGE}{extra} @ {url}" if url else f"{_PACKAGE}{extra}"


def _origin() -> dict[str, object]:
    """Return what the installer recorded about the source of Pegboard, which may be no index."""
    # They take longer to import than most commands run.
    import json  # noqa: PLC0415
    from importlib.metadata import PackageNotFoundError, distribution  # noqa: PLC0415

    try:
        return json.loads(distribution(_PACKAGE).read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, OSError, ValueError):
        return {}
