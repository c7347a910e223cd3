"""The table "Where is what": a concern as an outsider would put it, and the file that holds it."""

from scripts.places import ROOT

__all__ = ["answers", "table"]

SOURCE = ROOT / "tests/architecture/where_is_what.tsv"
"""A concern, a path below `src/pegboard`, and a name defined there, on each line."""


def answers() -> list[tuple[str, str, str]]:
    """Return each concern with its path and the name that deals with it."""
    lines = SOURCE.read_text("utf-8").splitlines()
    return [(concern, path, name) for concern, path, name in (it.split("\t") for it in lines)]


def table() -> str:
    """Return the table, ordered by path."""
    rows = [
        f"| {concern} | `{path}` | `{name}` |"
        for concern, path, name in sorted(answers(), key=lambda it: (it[1], it[0]))
    ]
    return "\n".join(["| concern | file | look for |", "| --- | --- | --- |", *rows])
