"""Measure everything once, print the tables, write `bench/results/` and the page quoting them."""

import dataclasses
import datetime
import json
import os
import platform
import sys

from bench import foundation, storage, upstreams
from bench.measure import ROOT, table

SUITES = {
    "foundation": foundation.measure,
    "upstreams": upstreams.measure,
    "storage": storage.measure,
}


def main() -> None:
    """Run every suite, or those that are named."""
    for name in sys.argv[1:] or SUITES:
        rows, versions = SUITES[name]()
        result = {
            "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
            "versions": versions,
            "rows": [dataclasses.asdict(row) for row in rows],
        }
        path = ROOT / "bench" / "results" / f"{name}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        _quote_in_docs(name, table(rows))
        print(table(rows))
        print(f"\nWritten to {path.relative_to(ROOT)}; versions: {json.dumps(versions)}\n")


def _quote_in_docs(suite: str, quoted: str) -> None:
    page = ROOT / "docs" / "measurements.md"
    begin, end = f"<!-- bench: {suite} -->\n", "\n<!-- bench: end -->"
    before, _, rest = page.read_text("utf-8").partition(begin)
    _, _, after = f"\n{rest}".partition(end)
    page.write_text(f"{before}{begin}{quoted}{end}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
