"""Where the recipe finds and leaves things."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / ".tools" / "words"
"""What was downloaded, and what the teachers said; a second run begins from it."""
LEFT_OUT_TABLES = ROOT / ".tools" / "tables"
RETRIEVAL = Path(os.environ.get("PEGBOARD_RETRIEVAL") or ROOT.parent / "shared" / "retrieval")
CATALOGS = RETRIEVAL.parent / "catalogs"


def work_folder(name: str) -> Path:
    """Return a folder of that name to work in; it is there."""
    folder = WORK / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder
