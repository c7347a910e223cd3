"""Types as JSON Schema: what is said of one that has none, and what the first one costs."""

import subprocess
import sys
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from pydantic import Field

from pegboard import Registry
from pegboard.errors import InvalidToolError
from pegboard.registry.functions.types import UnsupportedTypeError, describe_type, output_schema

FIRST_TOOL = """
import anyio
from blockbuster import blockbuster_ctx
from pegboard import Registry

def shout(text: str) -> str:
    return text.upper()

async def main() -> None:
    registry = Registry()
    with blockbuster_ctx("pegboard"):
        registry.register(shout)

anyio.run(main)
"""


class Hostile:
    """A type whose own code fails."""

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: Any) -> Any:
        raise LookupError("mine")


def take(value: Hostile) -> None: ...


@pytest.mark.parametrize("kind", [Callable[[], int], Annotated[str, Field(pattern="(")], object()])
def test_a_type_without_a_schema_is_unsupported(kind: Any) -> None:
    with pytest.raises(UnsupportedTypeError):
        describe_type(kind)
    assert output_schema(kind) is None


def test_a_failure_of_a_types_own_code_is_not_called_an_unsupported_type() -> None:
    with pytest.raises(LookupError, match="mine"):
        describe_type(Hostile)
    with pytest.raises(InvalidToolError, match="LookupError: mine") as refused:
        Registry().register(take)
    assert isinstance(refused.value.__cause__, LookupError)


def test_the_first_tool_of_a_process_is_registered_without_disk_work_on_the_event_loop() -> None:
    run = subprocess.run(
        [sys.executable, "-c", FIRST_TOOL], capture_output=True, encoding="utf-8", check=False
    )
    assert (run.returncode, run.stderr) == (0, "")
