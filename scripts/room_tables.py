"""The table in each folder's README: every module with the first line of its docstring."""

import ast
from pathlib import Path

from scripts.places import ROOT

__all__ = ["page", "readmes", "table"]

_PACKAGE = ROOT / "src/pegboard"
# A smaller folder explains itself.
_MANY = 3
_INIT = "__init__.py"


def readmes() -> list[str]:
    """Return the README of every folder with more than three modules, as paths in the checkout."""
    folders = sorted(path.parent for path in _PACKAGE.rglob(_INIT) if path.parent != _PACKAGE)
    return [
        (folder / "README.md").relative_to(ROOT).as_posix()
        for folder in folders
        if len(_modules(folder)) > _MANY
    ]


def page(name: str) -> str:
    """Return a new README for a folder that has none, with an empty table."""
    folder = (ROOT / name).parent
    title, purpose = folder.relative_to(_PACKAGE).as_posix(), _purpose(folder / _INIT)
    return f"# {title}\n\n{purpose}\n\n<!-- made: modules -->\n\n<!-- made: end -->\n"


def table(name: str) -> str:
    """Return the table of a folder's README."""
    folder = (ROOT / name).parent
    parts = [it for it in sorted(folder.iterdir()) if (it / _INIT).is_file()]
    rows = [f"| `{it.name}/` | {_purpose(it / _INIT)} |" for it in parts]
    rows += [f"| `{it.name}` | {_purpose(it)} |" for it in _modules(folder)]
    return "\n".join(["| module | what it is for |", "| --- | --- |", *rows])


def _modules(folder: Path) -> list[Path]:
    return sorted(it for it in folder.glob("*.py") if it.name != _INIT)


def _purpose(path: Path) -> str:
    """Return the first line of a module's docstring, fit for a cell of a table."""
    docstring = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    return docstring.partition("\n")[0].replace("|", "\\|")
