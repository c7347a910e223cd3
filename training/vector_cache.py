"""VectorCache: what a teacher has said about texts, so that it is asked once."""

from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path

import numpy as np

_KEY = 16
_ASKED_AT_ONCE = 2_048


class VectorCache:
    """Vectors by their texts, in two files that only grow.

    Args:
        stem: the path of the files, without their endings.
        width: how many numbers a vector has.
    """

    def __init__(self, stem: Path, width: int) -> None:
        self._keys = stem.with_suffix(".keys")
        self._vectors = stem.with_suffix(".vectors")
        self._width = width
        for path in (self._keys, self._vectors):
            path.touch()
        data = self._keys.read_bytes()
        # A run that was ended while it wrote may have left a part of something.
        whole = min(len(data) // _KEY, self._vectors.stat().st_size // (width * 2))
        self._place = {data[at * _KEY : (at + 1) * _KEY]: at for at in range(whole)}

    def vectors(
        self, texts: Sequence[str], encode: Callable[[Sequence[str]], np.ndarray]
    ) -> np.ndarray:
        """Return a row for each text; the teacher is asked for those that are new."""
        new = [text for text in dict.fromkeys(texts) if _key(text) not in self._place]
        for first in range(0, len(new), _ASKED_AT_ONCE):
            part = new[first : first + _ASKED_AT_ONCE]
            self.add(part, encode(part))
        if not texts:
            return np.zeros((0, self._width), np.float32)
        stored = np.memmap(self._vectors, np.float16, "r").reshape(-1, self._width)
        return stored[[self._place[_key(text)] for text in texts]].astype(np.float32)

    def add(self, texts: Sequence[str], vectors: np.ndarray) -> None:
        """Keep the vectors of some texts that are not there yet."""
        keys = [_key(text) for text in texts]
        known = len(self._place)
        _write_at(self._vectors, known * self._width * 2, vectors.astype(np.float16).tobytes())
        _write_at(self._keys, known * _KEY, b"".join(keys))
        for key in keys:
            self._place[key] = len(self._place)


def _write_at(path: Path, place: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.truncate(place)
        file.seek(place)
        file.write(data)


def _key(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_KEY).digest()
