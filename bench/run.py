"""Measure everything once, print the tables, write `bench/results/` and the page quoting them."""

import argparse
import dataclasses
import datetime
import json
import os
import platform
from pathlib import Path
from typing import Any

from bench import calls, foundation, gateway, storage, upstreams
from bench.measure import ROOT, table

SUITES = {
    "foundation": foundation.measure,
    "upstreams": upstreams.measure,
    "calls": calls.measure,
    "storage": storage.measure,
    "gateway": gateway.measure,
}


def main() -> None:
    """Run every suite, or those that are named."""
    parser = argparse.ArgumentParser(prog="python -m bench.run", description=__doc__)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=", ".join(SUITES))
    parser.add_argument(
        "--only",
        nargs="+",
        choices=calls.GROUPS,
        help="run these groups of the suite `calls`; this prints, and writes nothing",
    )
    asked = parser.parse_args()
    unknown = [name for name in asked.suites if name not in SUITES]
    if unknown:
        parser.error(f"no such suite: {', '.join(unknown)}")
    if asked.only:
        if asked.suites not in ([], ["calls"]):
            parser.error("--only chooses from the suite `calls`")
        rows, versions = calls.measure(asked.only)
        print(f"{table(rows)}\n\nVersions: {json.dumps(versions)}")
        return
    for name in asked.suites or SUITES:
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
