"""Which tests prove which requirement: the ids that `@pytest.mark.covers` gives to a test."""

import ast
from collections.abc import Iterator
from pathlib import Path

_TESTS = Path(__file__).parents[1]


def tied_tests() -> dict[str, list[str]]:
    """Return the node ids of the tests of each requirement, parameters left out."""
    ties: dict[str, list[str]] = {}
    for path in sorted(_TESTS.rglob("test_*.py")):
        module = path.relative_to(_TESTS.parent).as_posix()
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for decorator in node.decorator_list:
                    for id_ in _ids(decorator):
                        ties.setdefault(id_, []).append(f"{module}::{node.name}")
    return ties


def _ids(decorator: ast.expr) -> Iterator[str]:
    match decorator:
        case ast.Call(func=ast.Attribute(attr="covers"), args=arguments):
            for argument in arguments:
                assert isinstance(argument, ast.Constant)
                yield str(argument.value)
        case _:
            pass
