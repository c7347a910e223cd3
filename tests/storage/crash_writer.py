"""Writes to a store until it is killed: `python -m tests.storage.crash_writer URL TENANT SEED`.

What it does follows from the seed alone, so a test that knows how many operations were acknowledged
knows what must be in the store.
"""

import os
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pegboard.model import Tool
from pegboard.storage import Store, Use, open_store

WHEN = datetime(2026, 11, 16, 2, tzinfo=UTC)
NAMES = tuple(f"tool-{number}" for number in range(12))
KEYS = tuple(f"key-{number}" for number in range(4))
# Some are large enough that a journal has to be folded while the writer runs.
SIZES = (0, 10, 200, 200_000)

Operation = tuple[str, dict[str, Any]]


@dataclass
class Content:
    """What is in a store, as far as the writer writes it."""

    tools: dict[str, str] = field(default_factory=dict[str, str])
    uses: dict[str, int] = field(default_factory=dict[str, int])
    values: dict[str, Any] = field(default_factory=dict[str, Any])

    def change(self, operation: Operation) -> None:
        kind, what = operation
        match kind:
            case "save":
                self.tools |= what
            case "delete":
                for name in what:
                    self.tools.pop(name, None)
                    self.uses.pop(name, None)
            case "use":
                for name, count in what.items():
                    self.uses[name] = self.uses.get(name, 0) + count
            case "put":
                self.values |= what
            case "forget":
                for key in what:
                    self.values.pop(key, None)
            case _:
                pass


def operations(seed: int) -> Iterator[Operation]:
    """What the writer of this seed does, for ever."""
    pick = random.Random(seed)
    kinds = ("save", "save", "save", "save many", "delete", "use", "put", "forget", "reopen")
    for number in range(1_000_000):
        kind = pick.choice(kinds)
        names = pick.sample(NAMES, 5)
        match kind:
            case "save":
                yield "save", {names[0]: f"{number} " + "x" * pick.choice(SIZES)}
            case "save many":
                yield "save", dict.fromkeys(names, f"{number} of many")
            case "delete":
                yield "delete", {names[0]: None}
            case "use":
                yield "use", {name: pick.randrange(1, 5) for name in names}
            case "put":
                yield "put", {key: [number] for key in pick.sample(KEYS, pick.randrange(1, 4))}
            case "forget":
                yield "forget", dict.fromkeys(pick.sample(KEYS, 2))
            case _:
                # Often enough, and rare enough that most of the time is spent writing.
                if pick.random() < 0.3:
                    yield "reopen", {}


def perform(store: Store, operation: Operation) -> None:
    kind, what = operation
    values = store.namespace("room")
    match kind:
        case "save" if len(what) == 1:
            [(name, text)] = what.items()
            store.save(Tool(name=name, description=text))
        case "save":
            store.save_many(Tool(name=name, description=text) for name, text in what.items())
        case "delete":
            [name] = what
            store.delete(name)
        case "use":
            store.add_usage({name: Use(count, WHEN) for name, count in what.items()})
        case "put" if len(what) == 1:
            [(key, value)] = what.items()
            values.put(key, value)
        case "put":
            values.put_many(what)
        case "forget":
            values.delete(what)
        case _:
            raise AssertionError(operation)


def content_of(store: Store) -> Content:
    return Content(
        tools={it.tool.name: it.tool.description for it in store.load_all()},
        uses={name: it.use_frequency for name, it in store.usage().items()},
        values={key: it.value for key, it in store.namespace("room").items().items()},
    )


def main(url: str, tenant: str, seed: str) -> None:
    store = open_store(url, tenant=tenant)
    for number, operation in enumerate(operations(int(seed)), start=1):
        if operation[0] == "reopen":
            store.close()
            store = open_store(url, tenant=tenant)
        else:
            perform(store, operation)
        os.write(1, b"%d\n" % number)


if __name__ == "__main__":
    main(*sys.argv[1:])
