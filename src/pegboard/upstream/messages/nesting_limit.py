"""Nesting limit: replace the parts of a tool list that are nested deeper than the SDK reads."""

import re
from collections.abc import Iterator

import msgspec

__all__ = ["MOST_LEVELS", "TOO_DEEP", "without_depths"]

TOO_DEEP = "nested too deeply"
"""Replaces a value that is nested too deeply; as a schema it is invalid."""

MOST_LEVELS = 200
"""The deepest nesting of a message; the SDK reads one level more."""

_MARKER = msgspec.json.encode(TOO_DEEP)
_SIGNS = (b'"', b"[", b"]", b"{", b"}")
_MOST_SIGNS = 500_000
"""The most brackets and quotes that are scanned, in a thread if they are many."""
# Brackets in strings do not count. Possessive, so that no text takes long.
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)
# The levels of `{"result": {"tools": [{"inputSchema": {}}]}}`, counted from the outside.
_LIST = {1: b'"result"', 2: b'"tools"'}
_FIELD = 5


def without_depths(message: bytes) -> bytes:
    """Return a list of tools with a marker for each field of a tool that is nested too deeply.

    Everything else stays as it is, however deep: the result of a call is not to be changed.
    """
    if b'"tools"' not in message or sum(map(message.count, _SIGNS)) > _MOST_SIGNS:
        return message
    kept: list[bytes] = []
    end = 0
    for start, stop in _deep_fields(message):
        kept += (message[end:start], _MARKER)
        end = stop
    return b"".join((*kept, message[end:])) if kept else message


def _deep_fields(message: bytes) -> Iterator[tuple[int, int]]:
    # Without a parser: all of ours recurse, and none goes as deep as such a message.
    depth = deepest = start = 0
    names = dict.fromkeys(_LIST, b"")
    for token in _TOKEN.finditer(message):
        text = token[0]
        if text in b"[{":
            depth += 1
            if depth == _FIELD:
                start, deepest = token.start(), depth
            elif depth > deepest:
                deepest = depth
        elif text in b"]}":
            if depth == _FIELD and deepest > MOST_LEVELS and names == _LIST:
                yield start, token.end()
            depth -= 1
        elif depth in names:
            # The last text before a bracket is its name.
            names[depth] = text
