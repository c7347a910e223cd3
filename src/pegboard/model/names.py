"""Rules for tool names: which are allowed, and which look alike."""

import difflib
import fnmatch
import re
from collections.abc import Callable, Iterable
from itertools import islice

from pegboard.errors import InvalidToolError

__all__ = ["check_name", "name_matcher", "nearest_names"]

MAX_NAME_LENGTH = 512
# Comparing costs about 10 µs a name: enough candidates for a good hint, few enough for 5 ms.
_MAX_COMPARED = 500
_FAR = 0.2
"""So much less alike than the best is not what was meant."""


def check_name(name: object) -> str:
    """Return the name, or raise `InvalidToolError` saying what is wrong with it."""
    if not isinstance(name, str):
        raise InvalidToolError(f"A tool's name must be a string, not {type(name).__name__!r}.")
    plain = str.__str__(name)
    if not plain.strip():
        raise InvalidToolError("A tool's name must not be empty or blank.")
    if len(plain) > MAX_NAME_LENGTH:
        raise InvalidToolError(
            f"A tool's name has at most {MAX_NAME_LENGTH} characters, this one {len(plain)}."
        )
    if not plain.isprintable():
        raise InvalidToolError(f"A tool's name must be printable: {plain!r}.")
    return plain


def name_matcher(option: str, patterns: Iterable[str]) -> Callable[[str], bool]:
    """Return a function that tells whether a name matches one of the glob patterns."""
    if isinstance(patterns, str):
        # A bare string would be read as a list of one-letter patterns.
        raise TypeError(f"`{option}` takes a list of patterns: [{patterns!r}].")
    # An empty alternation would match every name; a class without members matches none.
    either = "|".join(fnmatch.translate(pattern) for pattern in patterns) or r"[^\s\S]"
    pattern = re.compile(either)
    return lambda name: pattern.match(name) is not None


def nearest_names(name: object, names: Iterable[str], *, limit: int = 3) -> list[str]:
    """Return the names most like the given one, best first; few or none when nothing is close."""
    if not isinstance(name, str) or len(name) > MAX_NAME_LENGTH:
        return []
    wanted = _squash(name)
    squashed = {other: _squash(other) for other in names}
    exact = [other for other, form in squashed.items() if form == wanted]
    if exact:
        return exact[:limit]
    if len(squashed) > _MAX_COMPARED:
        alike = ((other, form) for other, form in squashed.items() if _may_resemble(wanted, form))
        squashed = dict(islice(alike, _MAX_COMPARED))
    by_form = {form: other for other, form in squashed.items()}
    close = difflib.get_close_matches(wanted, by_form, n=limit, cutoff=0.6)
    alike = [difflib.SequenceMatcher(None, form, wanted).ratio() for form in close]
    return [by_form[form] for form, it in zip(close, alike, strict=True) if it > alike[0] - _FAR]


def _squash(name: str) -> str:
    return name.translate(_SEPARATORS).lower()


_SEPARATORS = str.maketrans("", "", "_-./: ")


def _may_resemble(wanted: str, other: str) -> bool:
    # Cheap, so that one unknown name among 100,000 tools does not cost a second.
    return abs(len(wanted) - len(other)) <= max(2, len(wanted) // 2) and (
        wanted[:2] == other[:2] or wanted[-3:] == other[-3:] or wanted in other
    )
