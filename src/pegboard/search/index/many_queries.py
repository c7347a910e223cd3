"""The candidates of many queries at once, which takes a fraction of the time for each."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from pegboard.search.index.bm25_scoring import Terms, score_many
from pegboard.search.index.nearest import SMALL, nearest_of_many
from pegboard.search.index.snapshot import DEPTH, EVERYTHING, Candidates, Snapshot
from pegboard.search.index.view import Filters
from pegboard.search.ranking import best_in_each
from pegboard.search.text.postings import Floats, Longs

__all__ = ["Asked", "candidates_of_many"]

# So many scores at once stay near the processor.
_SCORES_AT_ONCE = 500_000


class Asked(NamedTuple):
    """What `Snapshot.candidates` is asked for."""

    words: Mapping[str, float]
    vectors: Floats | None = None
    where: Filters = EVERYTHING


def candidates_of_many(
    snapshot: Snapshot, queries: Sequence[Asked], *, depth: int = DEPTH
) -> list[Candidates]:
    """Return what `snapshot.candidates` would for each query, in their order."""
    if not 0 < snapshot.size <= SMALL:
        return [
            snapshot.candidates(it.words, it.vectors, where=it.where, depth=depth) for it in queries
        ]
    alike: defaultdict[Filters, list[int]] = defaultdict(list)
    for number, query in enumerate(queries):
        alike[query.where].append(number)
    found: dict[int, Candidates] = {}
    terms = snapshot.terms
    at_once = max(1, _SCORES_AT_ONCE // snapshot.size)
    for where, numbers in alike.items():
        rows = snapshot.rows_for(where)
        for first in range(0, len(numbers), at_once):
            chunk = numbers[first : first + at_once]
            answers = _together(snapshot, terms, [queries[it] for it in chunk], rows, depth)
            found.update(zip(chunk, answers, strict=True))
    return [found[number] for number in range(len(queries))]


def _together(
    snapshot: Snapshot, terms: Terms, queries: Sequence[Asked], rows: Longs | None, depth: int
) -> Iterator[Candidates]:
    scores, by_words = score_many(terms, [query.words for query in queries])
    scores[:, snapshot.barred] = 0
    if rows is None:
        fitting = best_in_each(scores, depth, above=0.0)
    else:
        fitting = [rows[it] for it in best_in_each(scores[:, rows], depth, above=0.0)]
    meant = [query.vectors for query in queries if query.vectors is not None]
    near: Iterator[Longs] = iter(())
    if meant and snapshot.space is not None:
        near = iter(
            nearest_of_many(
                snapshot.views,
                meant,
                snapshot.space,
                wanted=depth,
                rows=rows,
                barred=snapshot.barred,
            )
        )
    for query, words, found in zip(queries, by_words, fitting, strict=True):
        fits = snapshot.cut(found, words.of(found), depth)
        if query.vectors is None or snapshot.space is None:
            yield snapshot.by_words(fits, words)
        else:
            yield snapshot.by_both(fits, words, next(near), query.vectors, depth)
