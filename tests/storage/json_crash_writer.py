"""As `crash_writer`, for a JSON store that folds its journal all the time."""

import sys

from pegboard.storage.json_file import folding
from tests.storage import crash_writer

if __name__ == "__main__":
    folding.QUIET = 0.0
    folding.SHARE = 0
    crash_writer.main(*sys.argv[1:])
