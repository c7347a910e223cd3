import ast
from collections.abc import Iterator
from pathlib import Path

from tests.requirements import LANDS_WITH_THE_CONNECTIONS, LEFT_OUT
from tests.requirements import SAGE as REQUIRED

TESTS = Path(__file__).parents[1]


def test_every_requirement_is_named_by_a_test() -> None:
    covered = set(covered_ids())
    assert set(REQUIRED) - covered == set()


def test_every_named_requirement_exists_and_is_not_marked_as_still_to_come() -> None:
    assert set(covered_ids()) - set(REQUIRED) == set()
    assert set(REQUIRED) & set(LANDS_WITH_THE_CONNECTIONS) == set()


def test_the_first_document_is_listed_without_gaps() -> None:
    listed = {*REQUIRED, *LANDS_WITH_THE_CONNECTIONS}
    assert {f"R-SAGE-{number}" for number in range(1, 41)} <= listed
    assert {f"X-SAGE-{number}" for number in range(1, 10)} <= {*listed, *LEFT_OUT}


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
