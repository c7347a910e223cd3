"""TypoIndex: finds the known spellings that are one typing error away from a text."""

from collections.abc import Iterator

__all__ = ["SHORTEST", "TypoIndex"]

SHORTEST = 5
"""In shorter names one error leaves too little: `get` and `set` are not the same word."""
# Names that differ in a number only ("step_0001" and so on) fill such buckets, and numbers are
# never taken for errors.
_CROWDED = 256


class TypoIndex:
    """Spellings by their thirds: one error leaves two of three as they were.

    So three keys a spelling find it, instead of one for every letter. Readers need no lock: what
    they look into changes in single steps.
    """

    def __init__(self) -> None:
        self._spellings: set[str] = set()
        self._buckets: dict[int, tuple[str, ...]] = {}

    def add(self, spelling: str) -> None:
        """Find this spelling from now on."""
        if len(spelling) < SHORTEST or spelling in self._spellings:
            return
        self._spellings.add(spelling)
        for key in _keys(spelling, len(spelling)):
            self._buckets[key] = (*self._buckets.get(key, ()), spelling)

    def discard(self, spelling: str) -> None:
        """Find this spelling no longer."""
        if spelling not in self._spellings:
            return
        self._spellings.remove(spelling)
        for key in _keys(spelling, len(spelling)):
            left = tuple(it for it in self._buckets[key] if it != spelling)
            if left:
                self._buckets[key] = left
            else:
                del self._buckets[key]

    def near(self, text: str) -> set[str]:
        """Return the spellings that differ by one letter added, missing, wrong or swapped."""
        found = {it for it in _swapped_at_borders(text) if it in self._spellings}
        for length in (len(text) - 1, len(text), len(text) + 1):
            if length >= SHORTEST:
                for key in _keys(text, length):
                    bucket = self._buckets.get(key, ())
                    if len(bucket) <= _CROWDED:
                        found.update(it for it in bucket if _one_error_apart(text, it))
        return found


def _keys(text: str, length: int) -> tuple[int, int, int]:
    """Return the keys of a spelling of that length, as far as the text agrees with it."""
    first, second = length // 3, 2 * length // 3
    # What follows an added or missing letter is found from the end.
    end = len(text)
    last, rest = text[end - (length - second) :], text[end - (length - first) :]
    return (
        hash((length, text[:second], "")),
        hash((length, "", rest)),
        hash((length, text[:first], last)),
    )


def _swapped_at_borders(text: str) -> Iterator[str]:
    """Mend the errors that touch two thirds: letters swapped where these meet."""
    for border in (len(text) // 3, 2 * len(text) // 3):
        if border:
            yield f"{text[: border - 1]}{text[border]}{text[border - 1]}{text[border + 1 :]}"


def _one_error_apart(one: str, other: str) -> bool:
    short, long = (one, other) if len(one) <= len(other) else (other, one)
    at = next((i for i, letter in enumerate(short) if letter != long[i]), len(short))
    if len(short) < len(long):
        return short[at:] == long[at + 1 :] and not long[at].isdigit()
    if short[at + 2 :] != long[at + 2 :]:
        return False
    ours, theirs = short[at : at + 2], long[at : at + 2]
    if any(it.isdigit() for it in ours[:1] + theirs[:1]):
        return False
    return ours[1:] == theirs[1:] or ours == theirs[::-1]
