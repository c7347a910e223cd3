"""Clauses: the single requests in a long one."""

import re

__all__ = ["clauses_of"]

_MOST = 12
_SHORTEST = 8
_SHORTEST_HAN = 4
_HAN = re.compile("[\u3400-\u9fff]")
_BORDERS = re.compile(
    r"(?<=[.!?;])\s+|[。！？；，]"  # noqa: RUF001 - Chinese has its own
    r"|\b(?:and then|and also|then|also|after that|afterwards|finally|next|as well as"
    r"|additionally|furthermore)\b|,\s+and\s+"
    "|然后|并且|同时|接着|之后|最后|以及|另外|还有",
    re.IGNORECASE,
)


def clauses_of(text: str) -> list[str]:
    """Return the clauses of a text that has more than one, else nothing."""
    parts = (part.strip(" ,，") for part in _BORDERS.split(text))  # noqa: RUF001 - as above
    found = [part for part in parts if len(part) >= _shortest(part)]
    return found[:_MOST] if len(found) > 1 else []


def _shortest(part: str) -> int:
    return _SHORTEST_HAN if _HAN.search(part) else _SHORTEST
