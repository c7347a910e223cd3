"""`pegboard serve`: one MCP endpoint in front of all servers of a configuration."""

import argparse
import importlib
from typing import TYPE_CHECKING

from pegboard.cli.wording import sentence

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # pyright: ignore[reportPrivateUsage]

__all__ = ["add_to"]


def add_to(commands: "Commands") -> None:
    """Add the command to a parser."""
    words = "serve all tools at one MCP endpoint"
    parser = commands.add_parser("serve", help=words, description=sentence(words))
    parser.add_argument("--config", metavar="FILE", help="the servers (mcp.json, looked for)")
    parser.add_argument("--demo", action="store_true", help="serve four small servers to try it")
    parser.add_argument(
        "--stdio", action="store_true", help="talk to the program that started this one"
    )
    parser.add_argument("--host", default="127.0.0.1", help="where to listen (127.0.0.1)")
    parser.add_argument("--port", type=int, default=8765, help="0 takes any that is free (8765)")
    parser.add_argument(
        "--surface",
        choices=("search", "full"),
        default="search",
        help="show a handful of tools that find and call the others, or all (search)",
    )
    parser.add_argument(
        "--store", metavar="URL", help="where keys, registered tools and usage are kept"
    )
    parser.add_argument("--audit", metavar="FILE", help="write down who did what, besides")
    parser.add_argument(
        "--allow-anonymous",
        action="store_true",
        help="serve other machines although nobody has to say who they are",
    )
    parser.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="a name under which this server is reached; may be given several times",
    )
    parser.add_argument(
        "--allow-origin",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="pages that may talk to this server, such as https://app.example.com",
    )
    parser.add_argument(
        "--drain",
        type=float,
        default=30.0,
        metavar="SECONDS",
        help="how long calls under way have when the process is to end (30)",
    )
    parser.add_argument(
        "--notice",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="how long requests are still taken after /readyz says no (0)",
    )
    parser.add_argument("--verbose", action="store_true", help="log more than warnings")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    # A second to import, which no other command should wait for.
    return importlib.import_module("pegboard.cli.serving").run(options)
