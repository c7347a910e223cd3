"""A process of `test_daily_usage.py`: notes calls, and says a line after each one is written."""

import os
import sys
import time

from pegboard.model import CallRecord
from pegboard.observe import History
from pegboard.storage import open_store


def main(url: str, tool: str, calls: int) -> None:
    with open_store(url) as store:
        history = History(store, keep=5)
        for number in range(calls):
            history(CallRecord(tool, time.time(), 0.001, "ok"))
            history.flush()
            os.write(1, b"%d\n" % number)
        history.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
