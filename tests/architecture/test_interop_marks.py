"""A misspelt environment of an `interop` mark would skip its test for good."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
_MARKS = re.compile(r"(?:interop|interop_full|environments=)\((.*?)\)")


def test_every_environment_that_a_test_names_is_made_by_a_recipe() -> None:
    made = set(re.findall(r"\.tools/([\w-]+)/\.installed", (ROOT / "Makefile").read_text("utf-8")))
    named = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for arguments in _MARKS.findall(path.read_text("utf-8"))
        for name in re.findall(r'"([\w-]+)"', arguments)
    }
    assert named - made == set()
    assert {"fastmcp", "langchain", "legacy", "llm-sdks", "node", "npm"} <= named
