"""A stranger's questions about the code, and where each is answered."""

import ast
from pathlib import Path

import pytest
from scripts.where_is_what import answers

import pegboard

SOURCE = Path(pegboard.__file__).parent
HERE = Path(__file__).parent


def test_every_concern_has_an_answer() -> None:
    concerns = (HERE / "concerns.txt").read_text("utf-8").splitlines()
    assert len(concerns) == 60
    assert sorted(concern for concern, _, _ in answers()) == sorted(concerns)


@pytest.mark.parametrize(("concern", "path", "name"), answers())
def test_a_concern_is_dealt_with_where_the_table_says(concern: str, path: str, name: str) -> None:
    tree = ast.parse((SOURCE / path).read_text("utf-8"))
    assert name in set(defined(tree)), concern


def defined(tree: ast.AST) -> list[str]:
    """Return the names of all classes, functions, methods and constants in a module."""
    names: list[str] = []
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                names.append(node.name)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                names.append(name)
            case _:
                pass
    return names
