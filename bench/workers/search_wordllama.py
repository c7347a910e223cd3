"""wordllama: static word vectors cut from a language model, 256 dimensions."""

from pathlib import Path

import numpy as np
import wordllama
from search_shared import Definition, Search, best, document, run
from wordllama import WordLlama

# The tokenizer is in the package, but looked for under another name and then downloaded.
MODEL = WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)


def build(tools: list[Definition]) -> Search:
    vectors = MODEL.embed([document(it) for it in tools], norm=True).astype(np.float32)
    return lambda text: best(vectors @ MODEL.embed([text], norm=True)[0])


run({"wordllama": build})
