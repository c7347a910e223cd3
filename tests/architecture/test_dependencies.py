"""What `pip install pegboard` brings is what the package imports."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pegboard

SOURCE = Path(pegboard.__file__).parent
PROJECT = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text("utf-8"))["project"]
BEHIND_AN_EXTRA = {
    "postgres": "storage/postgres/",
    "langchain": "toolsets/frameworks/langchain.py",
    "openai-agents": "toolsets/frameworks/openai_agents.py",
    "pydantic-ai": "toolsets/frameworks/pydantic_ai.py",
}
"""Modules that are imported only by users of an extra, so that they may import it at the top."""
IMPORTED_BY_OTHERS = {"httptools", "python-multipart"}
"""Optional parts of a dependency that are used by their owner: uvicorn's `HttpToolsProtocol`, and
the forms of Starlette."""
NAMED_OTHERWISE = {"agents": "openai-agents", "pydantic_ai": "pydantic-ai-slim"}
"""Who distributes a package of another name, where it is not installed (`make lowest`)."""
FOR_TESTS_ONLY = "testing/"
"""The contract suites: they run under the pytest of the user."""


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def distribution(requirement: str) -> str:
    """Return the name in a requirement such as ``psycopg[binary]>=3.2``."""
    return normal(re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0])


DECLARED = {distribution(it) for it in PROJECT["dependencies"]}
EXTRAS = {
    extra: {distribution(it) for it in needed}
    for extra, needed in PROJECT["optional-dependencies"].items()
}


def parts_of(declared: set[str]) -> set[str]:
    """Return what a dependency wants in one exact version: such a package is a part of it."""
    wanted = (it for name in declared for it in requires(name) or ())
    return {distribution(it) for it in wanted if "==" in it.partition(";")[0]}


def imports_in(path: Path) -> Iterator[tuple[str, bool]]:
    """Give the packages that a module imports, and whether it does so as soon as it is imported."""

    def visit(node: ast.AST, *, at_once: bool) -> Iterator[tuple[str, bool]]:
        match node:
            case ast.Import(names=names):
                yield from ((it.name.partition(".")[0], at_once) for it in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield module.partition(".")[0], at_once
            case ast.Call(
                func=ast.Name(id="import_module") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(module))],
            ):
                yield module.partition(".")[0], at_once
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                at_once = False
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                at_once = False
            case _:
                pass
        for child in ast.iter_child_nodes(node):
            yield from visit(child, at_once=at_once)

    yield from visit(ast.parse(path.read_text("utf-8")), at_once=True)


def third_party() -> Iterator[tuple[str, set[str], bool]]:
    """Give each import of a foreign package: the module, who distributes it, whether at once."""
    homes = packages_distributions()
    for path in SOURCE.rglob("*.py"):
        module = path.relative_to(SOURCE).as_posix()
        for name, at_once in imports_in(path):
            if name != "pegboard" and name not in sys.stdlib_module_names:
                who = homes.get(name) or [NAMED_OTHERWISE.get(name, name)]
                yield module, set(map(normal, who)), at_once


def test_every_package_that_is_imported_is_a_declared_dependency() -> None:
    known = DECLARED | parts_of(DECLARED)
    for module, homes, at_once in third_party():
        if module.startswith(FOR_TESTS_ONLY) or homes & known:
            continue
        extras = [extra for extra, needs in EXTRAS.items() if homes & needs]
        assert extras, f"{module} imports {homes}, which is no dependency"
        behind = any(module.startswith(BEHIND_AN_EXTRA.get(it, "nowhere")) for it in extras)
        assert behind or not at_once, f"{module} imports {homes} of an extra before it is needed"


def test_every_dependency_is_imported() -> None:
    imported = set[str]().union(*(homes for _, homes, _ in third_party()))
    assert imported | IMPORTED_BY_OTHERS >= DECLARED.union(*EXTRAS.values())
    assert not imported & IMPORTED_BY_OTHERS
