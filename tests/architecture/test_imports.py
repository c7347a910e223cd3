import subprocess
import sys

import pytest

HEAVY = ("mcp", "mcp_types", "starlette", "uvicorn", "httpx2", "typer", "numpy", "pydantic")


def modules_after(statement: str) -> set[str]:
    code = f"{statement}; import sys; print(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True
    )
    return {name.partition(".")[0] for name in run.stdout.split()}


@pytest.mark.covers("R-SAGE-16")
def test_using_the_registry_needs_neither_the_mcp_sdk_nor_a_web_framework_nor_numpy() -> None:
    statement = (
        "from pegboard import Registry, tool; registry = Registry(); "
        "registry.register(tool(name='one')(lambda: 1)); assert registry.call('one') == 1"
    )
    loaded = modules_after(statement)
    assert "jsonschema_rs" in loaded
    assert loaded.isdisjoint(set(HEAVY) - {"pydantic"})


def test_a_command_that_calls_a_tool_imports_nothing_of_its_own_that_it_does_not_need() -> None:
    loaded = modules_after("import pegboard.cli.catalogue.calling")
    needless = {"rich", "docstring_parser", "opentelemetry", "cryptography", "sse_starlette"}
    assert loaded.isdisjoint({*HEAVY, *needless} - {"typer", "pydantic"})
