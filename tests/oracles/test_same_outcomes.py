"""A user of one of the five systems changes the import and notices nothing."""

import importlib
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import TOOLS
from tests.oracles import outcomes, surface

ROOT = Path(__file__).parents[2]
MOST_ROWS = 15
# Both are public repositories, not packages: a table says what was read in them.
READ = ["excelmanus", "sage"]
INSTALLED = ["agentscope", "liteai", "registrytools"]


def of_a_side(python: Path, system: str, side: str) -> dict[str, Any]:
    done = subprocess.run(
        [python, "-m", "tests.oracles.run", system, side],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def module_of(system: str) -> Any:
    return importlib.import_module(f"tests.oracles.{system}")


def rows_of_the_guide(system: str) -> set[str]:
    """Return the first cells of the table under "What is different"."""
    page = (ROOT / "docs" / "guides" / f"coming-from-{system}.md").read_text("utf-8")
    _, _, section = page.partition("\n## What is different\n")
    cells = re.findall(r"^\| (.+?) \|", section.partition("\n## ")[0], re.MULTILINE)
    return set(cells[2:])  # without the head of the table and the line below it


def differing(real: dict[str, Any], ours: dict[str, Any]) -> dict[str, str]:
    """Return every place where a user would notice a difference, with both outcomes."""
    found = dict.fromkeys(surface.differences(real["surface"], ours["surface"]), "")
    assert real["scenarios"].keys() == ours["scenarios"].keys()
    for name, outcome in real["scenarios"].items():
        if not outcomes.same(outcome, ours["scenarios"][name]):
            found[name] = f"\n    real: {outcome}\n    ours: {ours['scenarios'][name]}"
    return found


@pytest.mark.parametrize(
    "system",
    [
        *(pytest.param(it, marks=pytest.mark.oracle) for it in READ),
        *(pytest.param(it, marks=pytest.mark.interop_full(f"oracles/{it}")) for it in INSTALLED),
    ],
)
def test_every_outcome_is_the_real_one_or_a_row_of_the_guide(
    system: str, record_property: Callable[[str, object], None]
) -> None:
    ours = of_a_side(Path(sys.executable), system, "ours")
    real = (
        {"surface": module_of(system).SURFACE, "scenarios": module_of(system).TABLE.expected}
        if system in READ
        else of_a_side(TOOLS / "oracles" / system / "bin" / "python", system, "real")
    )
    found = differing(real, ours)
    told = module_of(system).DIFFERENCES
    explained = {place for places in told.values() for place in places}
    scenarios = len(real["scenarios"])
    unequal = len(found.keys() & real["scenarios"].keys())
    record_property(
        "compared",
        f"{system}: {scenarios} scenarios compared, {scenarios - unequal} equal; "
        f"{len(real['surface'])} public names; {len(found)} differences, "
        f"told in {len(told)} rows of the guide",
    )
    unexplained = "".join(f"\n- {it}{found[it]}" for it in found if it not in explained)
    assert not unexplained, f"{system} does otherwise:{unexplained}"
    assert not explained - found.keys(), "these are equal by now; take them out of the guide"


@pytest.mark.parametrize("system", [*READ, *INSTALLED])
def test_the_guide_has_a_row_for_each_difference_and_no_other(system: str) -> None:
    rows = rows_of_the_guide(system)
    assert rows == set(module_of(system).DIFFERENCES)
    assert len(rows) <= MOST_ROWS
