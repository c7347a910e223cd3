"""What every contender is measured on: the same functions, schema and arguments."""

import json
import os
import sys
from collections.abc import Callable
from typing import Any

TOOLS = 10_000
ECHO = {"text": "hello"}


def functions(count: int = TOOLS) -> list[Callable[..., Any]]:
    """Distinct functions with the signatures tools usually have."""
    made: list[Callable[..., Any]] = []
    for number in range(count):
        space: dict[str, Any] = {}
        source = (
            f"async def forecast_{number}(city: str, days: int = 3, unit: str = 'c') -> str:\n"
            f"    'Tell the weather of a city, variant {number}.'\n"
            "    return city\n"
        )
        exec(source, space)
        made.append(space[f"forecast_{number}"])
    return made


def realistic_schema() -> dict[str, Any]:
    """Twenty properties, nested."""
    address = {
        "type": "object",
        "properties": {
            "street": {"type": "string", "maxLength": 200},
            "number": {"type": "integer", "minimum": 1},
            "country": {"enum": ["NO", "SE", "DK", "FI", "IS"]},
        },
        "required": ["street", "country"],
        "additionalProperties": False,
    }
    properties: dict[str, Any] = {
        f"text_{number}": {"type": "string", "minLength": 1, "maxLength": 400}
        for number in range(8)
    }
    properties |= {f"count_{number}": {"type": "integer", "minimum": 0} for number in range(4)}
    properties |= {f"flag_{number}": {"type": "boolean"} for number in range(3)}
    properties |= {
        "tags": {"type": "array", "items": {"type": "string", "pattern": "^[a-z]+$"}},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "home": address,
        "previous": {"type": "array", "items": address, "maxItems": 20},
        "ratio": {"type": "number", "minimum": 0, "maximum": 1},
    }
    return {
        "type": "object",
        "properties": properties,
        "required": ["text_0", "count_0", "home"],
        "additionalProperties": False,
    }


def realistic_arguments() -> dict[str, Any]:
    """About 3 KB that fit the realistic schema."""
    address = {"street": "Karl Johans gate", "number": 22, "country": "NO"}
    arguments: dict[str, Any] = {f"text_{number}": "word " * 40 for number in range(8)}
    arguments |= {f"count_{number}": number for number in range(4)}
    arguments |= {f"flag_{number}": True for number in range(3)}
    arguments |= {
        "tags": ["red", "green", "blue"] * 4,
        "note": None,
        "home": address,
        "previous": [dict(address) for _ in range(16)],
        "ratio": 0.5,
    }
    return arguments


def resident_bytes() -> int:
    """Return the memory of this process that is in RAM."""
    with open("/proc/self/statm", encoding="ascii") as statm:  # noqa: PTH123
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def report(**figures: float) -> None:
    """Print the figures of one repetition."""
    sys.stdout.write(json.dumps(figures) + "\n")
