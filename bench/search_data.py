"""The sets that searches are compared on, read from a folder beside the checkout."""

import json
import os
import random
from dataclasses import dataclass
from pathlib import Path

from bench.measure import ROOT
from pegboard.search.evaluation import EvaluationSet, Question, read_evaluation_set

SETS = (
    "toole",
    "sealtools",
    "bfcl",
    "mcpflow",
    "mcptoolbench",
    "mcpagentbench",
    "mcpproxy_golden",
    "ultratool_zh",
    "ultratool_zh2en",
)
MERGED = "all"
SAMPLE = 300
"""Questions of each set, unless all are asked for: slow engines take half a second for one."""
MERGED_SAMPLE = 150
"""Questions of the merged catalogue, where they take longest."""
_SEED = 20_240


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A set as the engines get it: files with its tools, and with the texts of its questions."""

    data: EvaluationSet
    questions: tuple[Question, ...]
    tools_file: Path
    texts_file: Path
    all_texts_file: Path
    """The texts of all its questions, whichever are chosen."""
    relevant_file: Path

    @property
    def name(self) -> str:
        """The name of the set."""
        return self.data.name

    def names(self, places: list[int]) -> list[str]:
        """Return the names of the tools at some places of the catalogue."""
        return [self.data.tools[place].name for place in places]


def source() -> Path:
    """Return the folder of the sets.

    Raises:
        SystemExit: when it is not there.
    """
    beside = ROOT.parent / "shared" / "retrieval"
    folder = Path(os.environ.get("PEGBOARD_RETRIEVAL") or beside)
    missing = [name for name in (*SETS, MERGED) if not (folder / name / "tools.jsonl").is_file()]
    if missing:
        raise SystemExit(
            f"The data sets are not in {folder} (missing: {', '.join(missing)}). They are not part "
            "of the repository; say where they are by PEGBOARD_RETRIEVAL=/path/to/retrieval. "
            "bench/README.md describes their format."
        )
    return folder


def prepare(name: str, folder: Path, *, sample: int | None) -> Asked:
    """Read a set, choose its questions, and write what the engines read into a folder.

    Every engine gets the same definitions, with the same unique names, and the same questions: all
    of them, or a sample that is the same in every run.
    """
    data = read_evaluation_set(source() / name)
    questions = data.questions
    if sample is not None and name == MERGED:
        sample = min(sample, MERGED_SAMPLE)
    if sample is not None and sample < len(questions):
        questions = tuple(random.Random(_SEED).sample(questions, sample))
    places = {tool.name: place for place, tool in enumerate(data.tools)}
    definitions = [
        {
            "name": tool.name,
            "description": tool.description,
            "server": tool.server or "",
            "input_schema": tool.input_schema,
            "tags": list(tool.tags),
        }
        for tool in data.tools
    ]
    relevant = [sorted(places[it] for it in question.relevant) for question in questions]
    return Asked(
        data=data,
        questions=questions,
        tools_file=_write(folder / f"{name}-tools.json", definitions),
        texts_file=_write(folder / f"{name}-texts.json", [it.text for it in questions]),
        all_texts_file=_write(folder / f"{name}-all.json", [it.text for it in data.questions]),
        relevant_file=_write(folder / f"{name}-relevant.json", relevant),
    )


def _write(path: Path, value: object) -> Path:
    path.write_text(json.dumps(value), encoding="utf-8")
    return path
