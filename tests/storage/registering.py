"""A process of `test_processes.py`: registers tools, and waits until it was told of all others."""

import sys
import threading

from pegboard import Tool
from pegboard.storage import StoreChange, open_store


def main(url: str, tenant: str, me: int, processes: int, each: int) -> None:
    wanted = {f"{who}-{number}" for who in range(processes) for number in range(each)}
    seen = set[str]()
    news = threading.Condition()
    with open_store(url, tenant=tenant) as store:

        def hear(change: StoreChange) -> None:
            names = {it.tool.name for it in store.load_all()} if change.everything else change.tools
            found = store.load(names)
            with news:
                seen.update(found)
                news.notify_all()

        store.watch(hear)
        say("ready")
        sys.stdin.readline()
        for number in range(each):
            store.save(Tool(name=f"{me}-{number}"))
        say("saved")
        sys.stdin.readline()
        with news:
            news.wait_for(lambda: seen >= wanted, timeout=5)
        say(len(seen & wanted))


def say(word: object) -> None:
    print(word, flush=True)  # noqa: T201 - to the parent


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
