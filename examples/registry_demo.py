"""Tools of this process: registered, described, called, refused and observed."""

import json
import time
from typing import Annotated

import anyio

from examples.calculator import Calculator
from pegboard import (
    Access,
    CallRecord,
    Deadline,
    PegboardError,
    Registry,
    run_plan,
    tool,
)


@tool
def add(a: int, b: Annotated[int, "What to add; 1 if you do not say"] = 1) -> int:
    """Add two numbers."""
    return a + b


@tool(name="weather_today", tags=["weather"])
async def weather(city: str, unit: str = "celsius") -> str:
    """Tell the weather of a city."""
    await anyio.sleep(0.01)
    return f"Sunny in {city}, 21° {unit}"


@tool
def delete_everything() -> None:
    """Delete everything, at once and for good."""


def sleep_too_long() -> None:
    """Take longer than anybody wants to wait."""
    time.sleep(60)


def show(title: str, value: object) -> None:
    """Print one part of the demo."""
    print(f"\n{title}\n  {value}")


async def main() -> None:
    """Run the demo."""
    records: list[CallRecord] = []
    registry = Registry(access=Access(deny=["delete_*"]), observers=[records.append])
    registry.register_many([add, weather, Calculator(), delete_everything])
    registry.register(sleep_too_long, deadline=Deadline(0.2))

    print("What a planner sees (delete_everything is denied, so it is not there):")
    print(json.dumps(registry.describe(), indent=2, ensure_ascii=False))

    show("call('add', {'a': 2})", registry.call("add", {"a": 2}))
    show("await acall('weather_today', …)", await registry.acall("weather_today", {"city": "Oslo"}))
    show("call('calculator', …)", registry.call("calculator", {"expr": "21*2+5"}))

    plan = [
        {"type": "tool", "name": "add", "arguments": {"a": 40, "b": 2}},
        {"type": "reply", "text": "Here you are."},
    ]
    for result in run_plan(registry, plan):
        show(f"plan step {result.step['type']!r}", result.value if result.ran else result.step)

    for name, arguments in [
        ("add", {"a": "two", "c": 3}),
        ("weather_todya", {"city": "Oslo"}),
        ("delete_everything", {}),
        ("sleep_too_long", {}),
    ]:
        try:
            await registry.acall(name, arguments)
        except PegboardError as error:
            show(f"{type(error).__name__}", error)

    print("\nWhat the observer saw:")
    for record in records:
        print(
            f"  {record.tool:18} {record.outcome:8} {record.duration * 1000:8.2f} ms  "
            f"attempts={record.attempts}  {record.error_code or ''}"
        )
