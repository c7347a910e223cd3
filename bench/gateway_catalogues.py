"""Real catalogues of tools, and larger ones made of them."""

import json
import os
import sys
from pathlib import Path
from typing import Any

from bench.measure import ROOT, WORKERS

CATALOGUES = Path(os.environ.get("PEGBOARD_CATALOGS", ROOT.parent / "shared" / "catalogs"))
"""One file per server, each the list of its tools; they are not part of the repository."""


def real_tools() -> dict[str, list[dict[str, Any]]]:
    """Tools of real servers, by server."""
    files = sorted(CATALOGUES.glob("*.json"))
    if not files:
        raise SystemExit(
            f"There are no catalogues of real servers in {CATALOGUES}. They are not part of the "
            "repository; say where they are by PEGBOARD_CATALOGS=/path/to/catalogs. "
            "bench/README.md describes their format. `foundation`, `upstreams` and `storage` need "
            "none."
        )
    return {file.stem: json.loads(file.read_text("utf-8")) for file in files}


def generated_tools(count: int) -> list[dict[str, Any]]:
    """As many tools with distinct names, put together from the real ones."""
    sys.path.insert(0, str(WORKERS))
    from search_generated import generated

    real = [
        {
            "name": tool["name"],
            "description": tool.get("description") or tool["name"],
            "server": server,
            "input_schema": tool["inputSchema"],
            "tags": [],
        }
        for server, tools in real_tools().items()
        for tool in tools
    ]
    return [
        {
            "name": it["name"],
            "description": it["description"],
            "inputSchema": it["input_schema"],
        }
        for it in generated(real, count)
    ]
