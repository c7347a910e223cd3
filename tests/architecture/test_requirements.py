import ast
from collections.abc import Iterator
from pathlib import Path

from tests.requirements import COMING, LEFT_OUT, REQUIRED

TESTS = Path(__file__).parents[1]
# How many lines the documents have: stated requirements, and what users of the real systems have.
STATED = {"SAGE": 40, "EXCEL": 65, "LITE": 33, "AS": 33, "REG": 41}
PARITY = {"SAGE": 9, "EXCEL": 14, "LITE": 9, "AS": 17, "REG": 13}


def test_every_requirement_is_named_by_a_test() -> None:
    covered = set(covered_ids())
    assert set(REQUIRED) - covered == set()


def test_every_named_requirement_exists() -> None:
    assert set(covered_ids()) - set(REQUIRED) == set()


def test_the_documents_are_listed_without_gaps() -> None:
    stated = {f"R-{name}-{it}" for name, last in STATED.items() for it in range(1, last + 1)}
    parity = {f"X-{name}-{it}" for name, last in PARITY.items() for it in range(1, last + 1)}
    assert stated - set(REQUIRED) - set(COMING) == set()
    assert stated | parity == set(REQUIRED) | set(LEFT_OUT) | set(COMING)
    assert len(stated | parity) == len(REQUIRED) + len(LEFT_OUT) + len(COMING)


def covered_ids() -> Iterator[str]:
    for path in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for decorator in node.decorator_list:
                    yield from marked_ids(decorator)


def marked_ids(decorator: ast.expr) -> Iterator[str]:
    match decorator:
        case ast.Call(func=ast.Attribute(attr="covers"), args=arguments):
            for argument in arguments:
                assert isinstance(argument, ast.Constant)
                yield str(argument.value)
        case _:
            pass
