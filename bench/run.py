"""Measure everything once, print the tables, write `bench/results/` and the page quoting them."""

import dataclasses
import datetime
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

from bench import foundation, gateway, storage, upstreams
from bench.measure import ROOT, table

SUITES = {
    "foundation": foundation.measure,
    "upstreams": upstreams.measure,
    "storage": storage.measure,
    "gateway": gateway.measure,
}


def main() -> None:
    """Run every suite, or those that are named."""
    unknown = [name for name in sys.argv[1:] if name not in SUITES]
    if unknown:
        raise SystemExit(f"usage: python -m bench.run [{' | '.join(SUITES)}] …")
    for name in sys.argv[1:] or SUITES:
        rows, versions = SUITES[name]()
        path = write_result(name, versions, rows=[dataclasses.asdict(row) for row in rows])
        quote_in_docs("measurements.md", name, table(rows))
        print(table(rows))
        print(f"\nWritten to {path.relative_to(ROOT)}; versions: {json.dumps(versions)}\n")


def write_result(name: str, versions: dict[str, dict[str, str]], **found: Any) -> Path:
    """Write what was found, and where it was found, into `bench/results/`."""
    result = {
        "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "versions": versions,
        **found,
    }
    path = ROOT / "bench" / "results" / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def quote_in_docs(page: str, suite: str, quoted: str) -> None:
    """Put a table between the markers of a page of the documentation."""
    path = ROOT / "docs" / page
    begin, end = f"<!-- bench: {suite} -->\n", "\n<!-- bench: end -->"
    before, found, rest = path.read_text("utf-8").partition(begin)
    if not found:
        raise SystemExit(f"docs/{page} has no line {begin.strip()!r} to put a table behind.")
    _, _, after = f"\n{rest}".partition(end)
    path.write_text(f"{before}{begin}{quoted}{end}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
