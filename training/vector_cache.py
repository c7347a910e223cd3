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
        self._place: dict[bytes, int] = {}
        if self._keys.exists():
            data = self._keys.read_bytes()
            keys = [data[at : at + _KEY] for at in range(0, len(data), _KEY)]
            self._place = {key: at for at, key in enumerate(keys)}

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
        # What a run left half-written is written over: the keys come last.
        with self._vectors.open("r+b" if self._vectors.exists() else "wb") as file:
            file.truncate(len(self._place) * self._width * 2)
            file.seek(0, 2)
            file.write(vectors.astype(np.float16).tobytes())
        keys = [_key(text) for text in texts]
        with self._keys.open("ab") as file:
            file.write(b"".join(keys))
        for key in keys:
            self._place[key] = len(self._place)


def _key(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_KEY).digest()
