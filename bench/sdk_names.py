"""The private names of the MCP SDK that `src` uses: counted, not timed."""

import ast
import functools
import importlib.util
from collections.abc import Iterator
from pathlib import Path

from bench.measure import ROOT

SOURCE = ROOT / "src" / "pegboard"
OVERRIDDEN = {"_handle_refresh_response", "_perform_authorization"}
"""Methods of the SDK's classes that a subclass of ours could replace."""


def private_sdk_names(source: Path = SOURCE) -> set[str]:
    """Return the private modules and names of the SDK that the modules in a folder use."""
    sdk = _private_attributes_of_sdk()
    return {
        name
        for path in source.rglob("*.py")
        for name in _names_in(ast.parse(path.read_text("utf-8")), sdk)
    }


def lines_in(folder: Path) -> int:
    """Return how many lines the modules in a folder have."""
    return sum(len(path.read_text("utf-8").splitlines()) for path in folder.rglob("*.py"))


def _names_in(tree: ast.Module, sdk: set[str]) -> Iterator[str]:
    own = _private_attributes(tree) - OVERRIDDEN
    for node in ast.walk(tree):
        match node:
            case ast.Import() | ast.ImportFrom():
                yield from (it for it in _imported(node) if _is_sdk(it) and _has_private(it))
            case ast.Attribute(value=value, attr=name) if _is_private(name):
                # A private attribute of another object: of ours if this module defines it.
                if not _is_own(value) and name in sdk and name not in own:
                    yield name
            case ast.AsyncFunctionDef(name=name) | ast.FunctionDef(name=name):
                if name in OVERRIDDEN:
                    yield name
            case _:
                pass


def _imported(node: ast.AST) -> list[str]:
    """The modules that a statement imports, with the private names it takes from them."""
    match node:
        case ast.Import(names=names):
            return [it.name for it in names]
        case ast.ImportFrom(module=str(module), names=names):
            private = [f"{module}.{it.name}" for it in names if _is_private(it.name)]
            return private or [module]
        case _:
            return []


@functools.cache
def _private_attributes_of_sdk() -> set[str]:
    found: set[str] = set()
    for package in ("mcp", "mcp_types"):
        spec = importlib.util.find_spec(package)
        assert spec is not None
        for folder in spec.submodule_search_locations or ():
            for path in Path(folder).rglob("*.py"):
                found |= _private_attributes(ast.parse(path.read_text("utf-8")))
    return found


def _private_attributes(tree: ast.Module) -> set[str]:
    """What the classes of a module define for themselves."""
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=value, attr=name, ctx=ast.Store()) if _is_own(value):
                found.add(name)
            case ast.AsyncFunctionDef(name=name) | ast.FunctionDef(name=name):
                found.add(name)
            case ast.AnnAssign(target=ast.Name(id=name)):
                found.add(name)
            case _:
                pass
    return {name for name in found if _is_private(name)}


def _is_own(value: ast.expr) -> bool:
    return isinstance(value, ast.Name) and value.id in {"self", "cls"}


def _is_sdk(module: str) -> bool:
    return module.partition(".")[0] in {"mcp", "mcp_types"}


def _has_private(module: str) -> bool:
    return any(_is_private(part) for part in module.split("."))


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")
