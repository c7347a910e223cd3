"""Without its extra, a method for an agent framework names what to install."""

import subprocess
import sys

import pytest

# In a process of its own: a framework that was imported cannot be taken away again.
CODE = """
import sys, types
from pegboard import Registry, Toolset

sys.modules[{package!r}] = {instead}
try:
    Toolset(Registry()).{method}()
except ImportError as error:
    print(error)
"""


@pytest.mark.parametrize(
    "instead",
    ["None", "types.ModuleType({package!r})"],
    ids=["missing", "another of the same name"],
)
@pytest.mark.parametrize(
    ("method", "extra", "package"),
    [
        ("langchain", "langchain", "langchain_core"),
        ("pydantic_ai", "pydantic-ai", "pydantic_ai"),
        ("openai_agents", "openai-agents", "agents"),
    ],
)
def test_an_import_error_names_the_extra(
    method: str, extra: str, package: str, instead: str
) -> None:
    code = CODE.format(package=package, instead=instead.format(package=package), method=method)
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True
    )
    assert ran.stdout.startswith(f"`toolset.{method}()` needs the extra {extra!r}: run `")
    assert f"[{extra}]'`" in ran.stdout
