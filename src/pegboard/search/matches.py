"""Where a tool matches a query."""

from collections.abc import Mapping

from pegboard.model import Tool
from pegboard.search.fields import FIELDS, SHOWN_AS, read_text
from pegboard.search.searcher import Match
from pegboard.search.words import QueryWords, words_of

__all__ = ["find_matches", "matches_of"]

# Some fields are shown as one.
_BITS: dict[str, int] = {}
for _number, _name in enumerate(FIELDS):
    _shown = SHOWN_AS.get(_name, _name)
    _BITS[_shown] = _BITS.get(_shown, 0) | 1 << _number


def matches_of(fields: Mapping[str, int], words: QueryWords) -> tuple[Match, ...]:
    """Return in which fields the words of a query are, as the query spells them.

    Args:
        fields: those of each term that the tool has: a bit for each.
        words: the words of the query.
    """
    there = [
        (word, fields[term]) for term, word in words.spelled.items() if word and term in fields
    ]
    matches: list[Match] = []
    for field, bits in _BITS.items():
        found = dict.fromkeys(word for word, its in there if its & bits)
        if found:
            matches.append(Match(field=field, words=tuple(found)))
    return tuple(matches)


def find_matches(tool: Tool, words: QueryWords) -> tuple[Match, ...]:
    """Return in which fields of a tool the words of a query are, by its texts."""
    text = read_text(tool)
    fields: dict[str, int] = {}
    for number, (name, field) in enumerate(FIELDS.items()):
        for term in words_of(getattr(text, name), prose=field.prose):
            fields[term] = fields.get(term, 0) | 1 << number
    return matches_of(fields, words)
