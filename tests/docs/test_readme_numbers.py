"""The benefits that README begins with have the numbers of the bench."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOKENS = "tokens of the definitions that a model carries: fewer than with all tools"
TASK = "the same with the answers of a task of five steps (search, then one definition each)"


def test_the_tokens_in_the_benefits_are_those_of_the_bench() -> None:
    found = json.loads((ROOT / "bench/results/gateway.json").read_text("utf-8"))["rows"]
    details = {row["claim"]: row["detail"] for row in found}
    carried, all_tools, tools = re.findall(r"[\d,]+", details[TOKENS])[:3]
    of_the_task = re.findall(r"[\d,]+", details[TASK])[0]
    benefits = (ROOT / "README.md").read_text("utf-8").partition("![")[0]
    assert {carried, all_tools, tools, of_the_task} <= set(re.findall(r"\d[\d,]*", benefits))
