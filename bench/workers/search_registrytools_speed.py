"""RegistryTools: one question, and one tool more until the next answer, by its BM25."""

import json
import sys
import time
from pathlib import Path
from statistics import median

from registrytools.registry.models import SearchMethod
from search_generated import generated
from search_registrytools import metadata, registry_of


def main() -> None:
    job = json.loads(sys.argv[1])
    real = json.loads(Path(job["tools"]).read_text("utf-8"))
    texts = json.loads(Path(job["texts"]).read_text("utf-8"))[:50]
    registry = registry_of(list(generated(real, job["count"])))
    registry.search(texts[0], SearchMethod.BM25, 5)
    questions = sorted(_seconds(registry, text) for text in texts)
    found = []
    for tool in generated(real, 3, seed=job["count"]):
        began = time.perf_counter()
        registry.register(metadata(tool))
        registry.search(texts[0], SearchMethod.BM25, 5)
        found.append(time.perf_counter() - began)
    middle, late = questions[len(questions) // 2], questions[int(0.95 * len(questions))]
    print(json.dumps({"p50": middle, "p95": late, "found": median(found)}))


def _seconds(registry, text: str) -> float:
    began = time.perf_counter()
    registry.search(text, SearchMethod.BM25, 5)
    return time.perf_counter() - began


main()
