"""What `pegboard --help` prints, without importing a single command."""

from pegboard.cli.commands import HEADINGS

__all__ = ["front_page"]


def front_page(*, bold: bool = False) -> str:
    """Return the usage, and one line for each command; ``bold`` is for a terminal."""
    begin, end = ("\033[1m", "\033[0m") if bold else ("", "")
    lines = [
        "Usage: pegboard [--debug] COMMAND [OPTIONS] ...",
        "",
        "Every MCP server and every tool on one board.",
    ]
    for heading, commands in HEADINGS.items():
        lines += ["", f"{begin}{heading}:{end}"]
        lines += [f"  {name:<14} {command.summary}" for name, command in commands.items()]
    lines += [
        "",
        f"{begin}Options:{end}",
        "  --version              print the version",
        "  --debug                show the traceback of an error (or set PEGBOARD_DEBUG=1)",
        "  --install-completion   let your shell complete commands and options (bash, zsh, fish)",
        "  --show-completion      print the script for that",
        "  --help                 show this; `pegboard COMMAND --help` says more",
        "",
    ]
    return "\n".join(lines)
