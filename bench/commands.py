"""Commands on a store that remembers ten thousand tools: how long a person waits for them."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from bench.gateway_catalogues import generated_tools
from bench.measure import Row, interleave, limit
from pegboard.config import load_servers
from pegboard.storage import open_store
from pegboard.upstream import CachedCatalog, Negotiated, StoreCatalogCache
from pegboard.upstream.catalog.offline_catalog import catalog_key

TOOLS, SERVERS = 10_000, 20
QUESTION = "take a screenshot of a web page"


def measure_commands(rounds: int = 9) -> list[Row]:
    """Time `search`, `show` and `tools`, from the start of the process to its end."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        environ = {**os.environ, "HOME": name, **_prepare(folder)}
        [found] = json.loads(_run(["search", QUESTION, "--json", "--limit", "1"], environ))
        commands = {
            "`pegboard search TEXT`": ["search", QUESTION],
            "`pegboard show TOOL`": ["show", found["name"]],
            "`pegboard tools`": ["tools"],
        }
        taken = interleave(rounds, {it: _timed(words, environ) for it, words in commands.items()})
    return [
        limit(f"{it}, 10,000 tools remembered", taken[it]["seconds"], 0.5, " s") for it in commands
    ]


def _prepare(folder: Path) -> Mapping[str, str]:
    """Write a configuration, and a store that remembers what its servers offer."""
    entries = {f"server{it}": {"command": "unused", "args": [str(it)]} for it in range(SERVERS)}
    config, store = folder / "mcp.json", folder / "pegboard.db"
    config.write_text(json.dumps({"mcpServers": entries}), "utf-8")
    definitions = generated_tools(TOOLS)
    said = msgspec.convert({"era": "modern", "version": "2026-07-28"}, Negotiated)
    with open_store(store) as opened:
        memory = StoreCatalogCache(lambda: opened)
        for number, server in enumerate(load_servers(config).servers):
            offered = tuple(definitions[number::SERVERS])
            memory.save(catalog_key(server), CachedCatalog(negotiated=said, tools=offered))
    return {"PEGBOARD_CONFIG": str(config), "PEGBOARD_STORE": str(store)}


def _timed(words: list[str], environ: Mapping[str, str]) -> Any:
    def run() -> dict[str, float]:
        began = time.perf_counter()
        _run(words, environ)
        return {"seconds": time.perf_counter() - began}

    return run


def _run(words: list[str], environ: Mapping[str, str]) -> bytes:
    command = [str(Path(sys.executable).with_name("pegboard")), *words]
    return subprocess.run(command, check=True, capture_output=True, env=dict(environ)).stdout
