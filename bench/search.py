"""Compare searches in one run: quality on every set, names, empty answers, speed and growth."""

import argparse
import dataclasses
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench import search_claims as claims
from bench import search_quality
from bench.measure import ROOT, Row, table
from bench.run import quote_in_docs, write_result
from bench.search_data import MERGED, SAMPLE, SETS, Asked, prepare
from bench.search_rivals import ENGINES

PARTS = ("quality", "names", "abstention", "speed")
PAGE = "search.md"
TABLES = (
    "search quality",
    "search by set",
    "search goals",
    "search names",
    "search abstention",
    "search speed",
)


def main() -> None:
    """Run every part, or those that are named; only a whole run is written down."""
    options = _options()
    if _is_whole(options):
        _check_page()
    with tempfile.TemporaryDirectory() as folder:
        sample = None if options.full else options.sample
        sets = [prepare(name, Path(folder), sample=sample) for name in options.sets]
        rows, found = _measure(options, sets)
    tables = {
        "search quality": search_quality.overview(found),
        "search by set": search_quality.by_set(found),
        **{f"search {part}": table(it) for part, it in rows.items()},
    }
    print("\n\n".join(it for it in tables.values() if it))
    if not _is_whole(options):
        print("\nNothing is written: this was a part of the measurement.")
        return
    versions = {name: engine.versions() for name, engine in ENGINES.items() if engine.packages}
    path = write_result(
        "search",
        versions,
        questions={it.name: len(it.questions) for it in sets},
        quality=[msgspec.to_builtins(it) for it in found],
        rows={part: [dataclasses.asdict(row) for row in it] for part, it in rows.items()},
    )
    for suite, quoted in tables.items():
        quote_in_docs(PAGE, suite, quoted)
    print(
        f"\nWritten to {path.relative_to(ROOT)} and docs/{PAGE}; versions: {json.dumps(versions)}"
    )


def _measure(
    options: argparse.Namespace, sets: Sequence[Asked]
) -> tuple[dict[str, list[Row]], list[search_quality.Measured]]:
    rows: dict[str, list[Row]] = {}
    found: list[search_quality.Measured] = []
    if "quality" in options.parts:
        found = search_quality.measure(options.engines, sets, options.left_out)
        rows["goals"] = claims.quality(found)
    if "names" in options.parts:
        rows["names"] = claims.names(sets)
    if "abstention" in options.parts:
        rows["abstention"] = claims.abstention(sets)
    if "speed" in options.parts:
        [merged] = [it for it in sets if it.name == MERGED]
        rows["speed"] = claims.speed(merged, options.sizes)
    return rows, found


def _check_page() -> None:
    # At the beginning, since the run takes long.
    page = ROOT / "docs" / PAGE
    text = page.read_text("utf-8") if page.is_file() else ""
    missing = [it for it in TABLES if f"<!-- bench: {it} -->\n" not in text]
    if missing:
        raise SystemExit(f"docs/{PAGE} has no place for: {', '.join(missing)}.")


def _is_whole(options: argparse.Namespace) -> bool:
    return (
        set(options.parts) == set(PARTS)
        and set(options.engines) == set(ENGINES)
        and set(options.sets) == {*SETS, MERGED}
        and set(options.sizes) == set(claims.SIZES)
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench.search", description=__doc__)
    parser.add_argument("--full", action="store_true", help="ask all questions of every set")
    parser.add_argument(
        "--sample", type=int, default=SAMPLE, help=f"questions of each set at most ({SAMPLE})"
    )
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, metavar="PART")
    parser.add_argument(
        "--engines", nargs="+", choices=ENGINES, default=list(ENGINES), metavar="ENGINE"
    )
    parser.add_argument(
        "--sets", nargs="+", choices=(*SETS, MERGED), default=(*SETS, MERGED), metavar="SET"
    )
    parser.add_argument(
        "--sizes", nargs="+", type=int, choices=claims.SIZES, default=list(claims.SIZES)
    )
    parser.add_argument(
        "--left-out",
        type=Path,
        metavar="DIR",
        help="tables of words that were trained without one set: `without-<set>.table`",
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
