"""Pegboard itself."""

import asyncio
import gc
import json
import statistics
import sys
import time
from collections import deque

import jsonschema_rs
from shared import (
    ECHO,
    TOOLS,
    functions,
    realistic_arguments,
    realistic_schema,
    report,
    resident_bytes,
)

from pegboard import CallRecord, Registry
from pegboard.model import ArgumentSchema

CALLS = 2_000
BLOCKS = 31


async def echo(text: str) -> str:
    "Echo."
    return text


async def add(a: int, b: int = 1) -> int:
    "Add two numbers."
    return a + b


class Shout:
    """A tool object, which takes its arguments as one dictionary."""

    name = "shout"
    input_schema = {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
    }

    async def call(self, arguments: dict[str, str]) -> str:
        return arguments["text"]


async def calls() -> None:
    """A trivial async tool, with validation and an observer, against the least it could cost."""
    seen: deque[CallRecord] = deque(maxlen=1000)
    registry = Registry(observers=[seen.append])
    shout = Shout()
    registry.register_many([echo, add, shout])
    figures: dict[str, float] = {}
    for name, function, arguments, named in (
        ("echo", echo, ECHO, True),
        ("add", add, {"a": 2}, True),
        ("shout", shout.call, ECHO, False),
    ):
        schema = json.dumps(registry.describe()[name]["input_schema"])
        validate = jsonschema_rs.validator_for(schema).validate
        floors: list[float] = []
        took: list[float] = []
        for _ in range(BLOCKS):
            start = time.perf_counter()
            if named:
                for _ in range(CALLS):
                    validate(arguments)
                    await function(**arguments)
            else:
                for _ in range(CALLS):
                    validate(arguments)
                    await function(arguments)
            floors.append((time.perf_counter() - start) / CALLS)
            start = time.perf_counter()
            for _ in range(CALLS):
                await registry.acall(name, arguments)
            took.append((time.perf_counter() - start) / CALLS)
        figures[f"{name}_floor"] = statistics.median(floors)
        figures[f"{name}_call"] = statistics.median(took)
    assert len(seen) == 1000
    report(**figures)


def validation() -> None:
    """Validation as a call does it: JSON check, defaults, schema."""
    schema = ArgumentSchema(realistic_schema(), tool="t")
    arguments = realistic_arguments()
    count = 20_000
    start = time.perf_counter()
    for _ in range(count):
        schema.check(arguments, tool="t")
    report(check=(time.perf_counter() - start) / count, size=len(json.dumps(arguments)))


def describe() -> None:
    """`describe()` of 10,000 tools against the same dict built by hand."""
    registry = Registry()
    registry.register_many(functions())
    tools = registry.tools()
    figures: dict[str, list[float]] = {"by_hand": [], "describe": []}
    for _ in range(15):
        start = time.perf_counter()
        by_hand = {
            tool.name: {"description": tool.description, "input_schema": tool.input_schema}
            for tool in tools
        }
        figures["by_hand"].append(time.perf_counter() - start)
        start = time.perf_counter()
        described = registry.describe()
        figures["describe"].append(time.perf_counter() - start)
        assert described == by_hand
    report(**{name: statistics.median(times) for name, times in figures.items()})


def register() -> None:
    """Registering 10,000 functions."""
    items = functions()
    gc.collect()
    before = resident_bytes()
    start = time.perf_counter()
    registry = Registry()
    registry.register_many(items)
    seconds = time.perf_counter() - start
    assert len(registry) == TOOLS
    report(seconds=seconds, bytes_per_tool=(resident_bytes() - before) / TOOLS)


if __name__ == "__main__":
    match sys.argv[1]:
        case "calls":
            asyncio.run(calls())
        case name:
            {"validation": validation, "describe": describe, "register": register}[name]()
