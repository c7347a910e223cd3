"""Write the pages, drawings and schemas that are made from the code.

Names of files, or parts of them, choose some; `--check` only says which are stale.
"""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path

from scripts import room_tables
from scripts.places import ROOT

PAGES = {
    "docs/reference/cli.md": "scripts.cli_page",
    "docs/reference/settings.md": "scripts.settings_page",
    "docs/reference/errors.md": "scripts.errors_page",
    "docs/reference/gateway-tools.md": "scripts.gateway_tools_page",
    "docs/reference/clients.md": "scripts.clients_page",
    "docs/images/board.svg": "scripts.board_drawing",
    "docs/images/concepts.svg": "scripts.concepts_drawing",
}
"""Each file, and the module whose function `page` gives its text."""
SCHEMAS = {
    "src/pegboard/config/files/gateway.schema.json": ("pegboard.server.settings", "section_text"),
    "src/pegboard/config/files/mcp.schema.json": (
        "pegboard.config.files.file_schema",
        "schema_text",
    ),
}
"""Each shipped schema, and the function that gives its text; the second contains the first."""
DRAWINGS = {
    "docs/architecture/call.svg": ("scripts.walk_pages", "call_drawing"),
    "docs/architecture/search.svg": ("scripts.walk_pages", "search_drawing"),
}
"""Each drawing that shares its module with others, and the function that gives its text."""
PARTS = {
    "README.md": ("scripts.claims", "english"),
    "README.zh-CN.md": ("scripts.claims", "chinese"),
    "docs/architecture.md": ("scripts.where_is_what", "table"),
    "docs/architecture/call.md": ("scripts.walk_pages", "call_table"),
    "docs/architecture/search.md": ("scripts.walk_pages", "search_table"),
}
"""Each file of which only what stands between two markers is made, and the function that does."""
ROOMS = room_tables.readmes()
"""The README of each folder with many modules; the table between its markers is made."""


def stale(chosen: Sequence[str] = ()) -> Iterator[tuple[Path, str]]:
    """Give each file that is not what the code would make of it, with what it should be."""
    for name in (*PAGES, *SCHEMAS, *DRAWINGS, *PARTS, *ROOMS):
        if chosen and not any(part in name for part in chosen):
            continue
        path, text = ROOT / name, made(name)
        if not path.is_file() or path.read_text("utf-8") != text:
            yield path, text


def made(name: str) -> str:
    """Return what the code makes of a file."""
    if name in PAGES:
        return _function(PAGES[name], "page")()
    whole = SCHEMAS.get(name) or DRAWINGS.get(name)
    if whole is not None:
        return _function(*whole)()
    path = ROOT / name
    part = room_tables.table(name) if name in ROOMS else _function(*PARTS[name])()
    page = path.read_text("utf-8") if path.is_file() else room_tables.page(name)
    pattern = re.compile(r"(<!-- made: .*? -->\n).*?(\n<!-- made: end -->)", re.DOTALL)
    return pattern.sub(lambda found: f"{found[1]}{part}{found[2]}", page)


def main(arguments: Sequence[str]) -> int:
    """Write what is stale, or only name it."""
    checks = "--check" in arguments
    found = False
    # Written one by one: a schema may contain the one before it.
    for path, text in stale([it for it in arguments if it != "--check"]):
        found = True
        sys.stdout.write(f"{path.relative_to(ROOT)}\n")
        if not checks:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
    return 1 if found and checks else 0


def _function(module: str, name: str) -> Callable[[], str]:
    return getattr(import_module(module), name)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
