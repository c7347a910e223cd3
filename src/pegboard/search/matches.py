"""Where a tool matches a query."""

from collections.abc import Mapping

from pegboard.model import Tool
from pegboard.search.fields import FIELDS, SHOWN_AS, read_text
from pegboard.search.searcher import Match
from pegboard.search.words import QueryWords, words_of

__all__ = ["find_matches", "matches_of"]

# Some fields are shown as one.
_SHOWN = tuple(dict.fromkeys(SHOWN_AS.get(name, name) for name in FIELDS))
_SHOWN_FOR_BITS = [
    {SHOWN_AS.get(name, name) for number, name in enumerate(FIELDS) if bits >> number & 1}
    for bits in range(1 << len(FIELDS))
]


def matches_of(fields: Mapping[str, int], words: QueryWords) -> tuple[Match, ...]:
    """Return in which fields the words of a query are, as the query spells them.

    Args:
        fields: those of each term that the tool has, in the order of the query: a bit for each.
        words: the words of the query.
    """
    found: dict[str, dict[str, None]] = {}
    for term, bits in fields.items():
        word = words.spelled[term]
        if word:
            for field in _SHOWN_FOR_BITS[bits]:
                found.setdefault(field, {})[word] = None
    return tuple([Match(field=it, words=tuple(found[it])) for it in _SHOWN if it in found])


def find_matches(tool: Tool, words: QueryWords) -> tuple[Match, ...]:
    """Return in which fields of a tool the words of a query are, by its texts."""
    text = read_text(tool)
    fields: dict[str, int] = {}
    for number, (name, field) in enumerate(FIELDS.items()):
        for term in words_of(getattr(text, name), prose=field.prose):
            fields[term] = fields.get(term, 0) | 1 << number
    return matches_of({term: fields[term] for term in words.spelled if term in fields}, words)
