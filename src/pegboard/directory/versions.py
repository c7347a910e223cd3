"""Order of versions, as npm and PyPI number them: which of two is newer."""

import re

__all__ = ["is_newer"]

_VERSION = re.compile(r"v?(?P<release>\d+(?:\.\d+)*)(?P<rest>[^+]*)")
_PART = re.compile(r"\d+|[a-z]+")
_DEVELOPMENT, _PRERELEASE, _RELEASE, _POST = range(4)
_Key = tuple[tuple[int, ...], int, tuple[tuple[int, int, str], ...]]


def is_newer(version: str, than: str) -> bool:
    """Tell whether a version is newer than another; of other forms, any other version is."""
    one, other = _key(version), _key(than)
    if one is None or other is None:
        return version != than
    return one > other


def _key(version: str) -> _Key | None:
    found = _VERSION.fullmatch(version.lower().partition("+")[0])
    if found is None:
        return None
    release = [int(it) for it in found["release"].split(".")]
    while release and not release[-1]:
        # 1.0 and 1.0.0 are the same.
        release.pop()
    parts = _PART.findall(found["rest"])
    return tuple(release), _kind(parts), tuple(map(_part, parts))


def _kind(parts: list[str]) -> int:
    if not parts:
        return _RELEASE
    if parts[0] in ("post", "rev"):
        return _POST
    return _DEVELOPMENT if parts[0] == "dev" else _PRERELEASE


def _part(text: str) -> tuple[int, int, str]:
    # A number comes before a word.
    return (0, int(text), "") if text.isdigit() else (1, 0, text)
