"""Demo: four small MCP servers to try a gateway with; each is a process of its own."""

import sys
from typing import Any

__all__ = ["demo_config"]

SERVERS = ("notes", "clock", "numbers", "texts")


def demo_config() -> dict[str, Any]:
    """Return a configuration with the servers of the demo."""
    return {
        "mcpServers": {
            name: {"command": sys.executable, "args": ["-m", f"pegboard.cli.demo.{name}"]}
            for name in SERVERS
        }
    }
