"""The searchers of the guide, from outside the package, keep the contract."""

import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from pegboard.search import Searcher
from pegboard.testing import SearcherContract

GUIDE = Path(__file__).parents[2] / "docs/guides/search-plugin.md"


@pytest.fixture(scope="module")
def guide() -> dict[str, Any]:
    space: dict[str, Any] = {"__name__": "guide"}
    blocks = re.findall(
        r"^```python\n(.*?)^```$", GUIDE.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    with redirect_stdout(StringIO()):
        for block in blocks:
            exec(compile(block, str(GUIDE), "exec"), space)
    return space


class FromTheGuide(SearcherContract):
    name: str

    @pytest.fixture(autouse=True)
    def from_the_guide(self, guide: dict[str, Any]) -> None:
        self.kind = guide[self.name]

    def open(self) -> Searcher:
        return self.kind()


class TestGlob(FromTheGuide):
    name = "Glob"


class TestSimilar(FromTheGuide):
    name = "Similar"
