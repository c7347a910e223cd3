"""SQLite FTS5: Porter stems, bm25() with a weight for each column."""

import re
import sqlite3

from search_shared import DEPTH, Definition, Search, parameters, run, words


def build(tools: list[Definition]) -> Search:
    database = sqlite3.connect(":memory:")
    database.execute(
        "CREATE VIRTUAL TABLE tools USING fts5(name, description, names, descriptions, server, "
        "tokenize = 'porter unicode61')"
    )
    rows = [
        (
            place,
            words(it["name"]),
            it["description"],
            words(parameters(it)[0]),
            parameters(it)[1],
            it["server"],
        )
        for place, it in enumerate(tools)
    ]
    with database:
        database.executemany(
            "INSERT INTO tools (rowid, name, description, names, descriptions, server) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            rows,
        )

    def search(text: str) -> list[int]:
        asked = " OR ".join(f'"{it}"' for it in dict.fromkeys(re.findall(r"\w+", text.lower())))
        if not asked:
            return []
        found = database.execute(
            "SELECT rowid FROM tools WHERE tools MATCH ? "
            "ORDER BY bm25(tools, 3.0, 1.0, 0.7, 0.5, 0.4) LIMIT ?",
            (asked, DEPTH),
        )
        return [place for (place,) in found]

    return search


run({"fts5": build})
