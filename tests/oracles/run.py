"""Run the scenarios of a system with one side's names, and print what came of them as JSON.

`python -m tests.oracles.run registrytools real` runs in the environment of the real package,
`python -m tests.oracles.run registrytools ours` in ours.
"""

import importlib
import json
import sys
from typing import Any

from tests.oracles.outcomes import run
from tests.oracles.surface import surface


def outcomes(system: str, side: str) -> dict[str, Any]:
    """Return the surface of a side and the outcome of every scenario by its name."""
    module = importlib.import_module(f"tests.oracles.{system}")
    names = module.names(side)
    return {
        "surface": surface(names),
        "scenarios": {key: run(it, names) for key, it in module.TABLE.scenarios.items()},
    }


def main() -> None:
    system, side = sys.argv[1:]
    found = outcomes(system, side)
    # Whatever the real package prints stands before this line.
    print("\n" + json.dumps(found, ensure_ascii=True), flush=True)


if __name__ == "__main__":
    main()
