"""As `crash_writer`, for a JSON store that folds its journal all the time."""

import sys

from pegboard.storage.json_file import files
from tests.storage import crash_writer

if __name__ == "__main__":
    files.QUIET = 0.0
    files.SHARE = 0
    crash_writer.main(*sys.argv[1:])
