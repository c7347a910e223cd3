"""What can be installed beside Pegboard is what the guides say; uv resolves it, no more."""

import re
import subprocess
import sys
from pathlib import Path

import mcp_types
import pytest

from tests.conftest import TOOLS

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| (`.+?) \| (resolves|`[\w-]+` conflicts) \|$", re.MULTILINE)


def rows_of_the_guides() -> "list[pytest.ParameterSet]":  # a name that older releases do not have
    """Return what stands below "Side by side": the packages of a row, and what becomes of them."""
    rows: list[pytest.ParameterSet] = []
    for path in sorted((ROOT / "docs" / "guides").glob("coming-from-*.md")):
        _, _, section = path.read_text("utf-8").partition("\n## Side by side\n")
        found = ROW.findall(section.partition("\n## ")[0])
        assert found, path.name
        for place, (packages, outcome) in enumerate(found):
            name = f"{path.stem.removeprefix('coming-from-')}-{place}"
            rows.append(pytest.param(re.findall(r"`(.+?)`", packages), outcome, id=name))
    return rows


@pytest.mark.interop_full("oracles/agentscope", "oracles/liteai", "oracles/registrytools")
@pytest.mark.parametrize(("packages", "outcome"), rows_of_the_guides())
def test_packages_are_resolved_with_pegboard_as_the_guide_says(
    packages: list[str], outcome: str
) -> None:
    command = [TOOLS / "bin" / "uv", "pip", "compile", "--quiet", "--python", sys.executable]
    done = subprocess.run(
        [*command, "pyproject.toml", "-"],
        cwd=ROOT,
        input="\n".join(packages),
        check=False,
        capture_output=True,
        encoding="utf-8",
        timeout=50,
    )
    if outcome == "resolves":
        assert done.returncode == 0, done.stderr
        return
    package = outcome.split("`")[1]
    assert "No solution found" in done.stderr
    assert re.search(rf"pegboard depends on\s+(\S+ and )?{package}\b", done.stderr), done.stderr


def imported_with_our_packages(system: str, code: str) -> subprocess.CompletedProcess[str]:
    """Run code that finds the packages of a system after ours, as one environment would."""
    [theirs] = (TOOLS / "oracles" / system).glob("lib/python*/site-packages")
    return subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.append({str(theirs)!r})\n{code}"],
        check=False,
        capture_output=True,
        encoding="utf-8",
        timeout=50,
    )


@pytest.mark.interop_full("oracles/agentscope")
def test_agentscope_cannot_be_imported_with_the_sdk_that_pegboard_needs() -> None:
    done = imported_with_our_packages("agentscope", "import agentscope")
    assert "cannot import name 'streamablehttp_client'" in done.stderr


@pytest.mark.interop_full("oracles/registrytools")
def test_registrytools_works_with_the_sdk_that_pegboard_needs() -> None:
    code = "import registrytools.server, pegboard.compat.registrytools; print('both')"
    done = imported_with_our_packages("registrytools", code)
    assert done.stdout == "both\n", done.stderr


def test_the_sdk_has_no_more_the_attributes_that_excelmanus_reads() -> None:
    tool = mcp_types.Tool(name="it", input_schema={})
    assert not hasattr(tool, "inputSchema")
    assert not hasattr(mcp_types.CallToolResult(content=[]), "isError")
