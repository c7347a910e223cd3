"""Read the command line, and run the command it names."""

import argparse
import os
import sys
from collections.abc import Sequence

from pegboard.cli import eval_search, keys, search, serve
from pegboard.errors import PegboardError

__all__ = ["main"]

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says, and return the exit code: 0 done, 1 not done, 2 misused."""
    options = _parser().parse_args(arguments)
    try:
        code: int = options.run(options)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read has enough, as `head` does. What is still to be written goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except PegboardError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201 - this is a command
        return 1
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "pegboard", description="Every MCP server and every tool on one board."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    serve.add_to(commands)
    keys.add_to(commands)
    search.add_to(commands)
    words = "measure something on data of your own"
    evaluations = commands.add_parser("eval", help=words, description=words)
    eval_search.add_to(evaluations.add_subparsers(required=True, metavar="search"))
    return parser


if __name__ == "__main__":
    sys.exit(main())
