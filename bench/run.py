"""Measure everything once, print one table, write `bench/results/`."""

import dataclasses
import datetime
import json
import os
import platform

from bench import foundation
from bench.measure import ROOT, table


def main() -> None:
    """Run every suite."""
    rows, versions = foundation.measure()
    result = {
        "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "versions": versions,
        "rows": [dataclasses.asdict(row) for row in rows],
    }
    path = ROOT / "bench" / "results" / "foundation.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    print(table(rows))
    print(f"\nWritten to {path.relative_to(ROOT)}; versions: {json.dumps(versions)}")


if __name__ == "__main__":
    main()
