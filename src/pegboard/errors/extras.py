"""How to install Pegboard, or what a part of it needs besides, from where it came from."""

__all__ = ["install_extra", "install_tool"]

_PACKAGE = "pegboard"


def install_extra(extra: str) -> str:
    """Return the command that installs an extra from where Pegboard itself was installed."""
    return f"pip install '{_requirement(_origin(), f'[{extra}]')}'"


def install_tool() -> str:
    """Return the command by which uv installs Pegboard for good, from where it was taken."""
    return f"uv tool install '{_requirement(_origin())}'"


def _requirement(origin: dict[str, object], extra: str = "") -> str:
    url = str(origin.get("url") or "")
    kind = origin.get("vcs_info")
    if isinstance(kind, dict) and "vcs" in kind:
        return f"{_PACKAGE}{extra} @ {kind['vcs']}+{url}"
    if url.startswith("file://") and "dir_info" in origin:
        from urllib.request import url2pathname  # noqa: PLC0415 - only for an error

        return f"{url2pathname(url.removeprefix('file://'))}{extra}"
    return f"{_PACKAGE}{extra} @ {url}" if url else f"{_PACKAGE}{extra}"


def _origin() -> dict[str, object]:
    """Return what the installer wrote down of where it took Pegboard from: it may be no index."""
    # They take longer to import than most commands run.
    import json  # noqa: PLC0415
    from importlib.metadata import PackageNotFoundError, distribution  # noqa: PLC0415

    try:
        return json.loads(distribution(_PACKAGE).read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, OSError, ValueError):
        return {}
