"""As `crash_writer`, for a JSON store that compacts its journal all the time."""

import sys

from pegboard.storage.json_file import compaction
from tests.storage import crash_writer

if __name__ == "__main__":
    compaction.QUIET = 0.0
    compaction.SHARE = 0
    crash_writer.main(*sys.argv[1:])
