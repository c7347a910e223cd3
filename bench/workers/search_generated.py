"""Catalogues of any size: real names, descriptions and parameters, put together anew."""

import random
import re
from collections.abc import Iterator
from typing import Any

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")


def generated(
    real: list[dict[str, Any]], count: int, *, seed: int = 20_240
) -> Iterator[dict[str, Any]]:
    """Definitions with distinct names, each from up to four real ones; the same in every run."""
    chance = random.Random(seed)
    words = [_WORDS.findall(it["name"]) or ["tool"] for it in real]
    sentences = [_sentences(it["description"]) for it in real]
    taken: set[str] = set()
    while len(taken) < count:
        a, b, c, d = (chance.randrange(len(real)) for _ in range(4))
        first, second = words[a], words[b]
        parts = first[: (len(first) + 1) // 2] + second[len(second) // 2 :]
        if "_".join(parts).lower() in taken:
            parts += words[c][-1:]
        name = "_".join(parts).lower()
        if name in taken:
            continue
        taken.add(name)
        yield {
            "name": name,
            "description": " ".join([*sentences[b][:2], *sentences[a][:1]]),
            "server": real[d]["server"],
            "input_schema": real[c]["input_schema"],
            "tags": real[d]["tags"],
        }


def _sentences(text: str) -> list[str]:
    return [it.strip() for it in re.split(r"(?<=[.!?。！？])\s*|\n+", text) if it.strip()]
