"""The commands that there are, and the module of each: imported only when it is called for."""

__all__ = ["CHANGING", "COMMANDS", "HEADINGS", "Command", "front_page"]


class Command:
    """One command: where it is written, and what the front page says about it."""

    # Nothing is imported for it, not even dataclasses: `pegboard --help` is to be there at once.
    __slots__ = ("module", "summary")

    def __init__(self, module: str, summary: str) -> None:
        self.module: str = module
        self.summary: str = summary


HEADINGS: dict[str, dict[str, Command]] = {
    "Start": {
        "serve": Command("serve", "serve all tools through one MCP endpoint"),
        "import": Command("import_servers", "take over the servers of your MCP clients"),
        "connect": Command("connect", "put Pegboard into the configuration of a client"),
        "disconnect": Command("disconnect", "take it out again: the file is as it was"),
        "doctor": Command(
            "doctor", "start every server once, and say what is wrong and the remedy"
        ),
    },
    "Servers": {
        "add": Command("add", "add a server to your configuration"),
        "remove": Command("remove", "take a server out of your configuration"),
        "enable": Command("enable", "use a server again"),
        "disable": Command("disable", "keep a server, but do not use it"),
        "list": Command("list_servers", "list the servers of your configuration"),
        "status": Command("status", "show how each server is"),
    },
    "Tools": {
        "search": Command("search", "find tools by what they do"),
        "show": Command("show", "show one tool: definition, signature, schema, cost"),
        "call": Command("call", "call a tool"),
        "tools": Command("tools", "list the tools"),
        "categories": Command("categories", "list the categories of the tools"),
        "cost": Command("cost", "count the tokens that a model carries for each server"),
        "usage": Command("usage", "show which tools are used, slow, failing or never used"),
    },
    "Looking after it": {
        "keys": Command("keys", "make, list, revoke and rotate API keys of the gateway"),
        "store": Command("store", "what is kept: info, check, recover, migrate, export, import"),
        "config": Command("config", "find and check the configuration, or print its schema"),
        "eval": Command("evaluate", "measure the search on data of your own"),
        "upgrade-notes": Command("upgrade_notes", "say what changed with each version"),
    },
}
"""What the front page shows, in its order."""

COMMANDS: dict[str, Command] = {
    name: command for commands in HEADINGS.values() for name, command in commands.items()
}
"""All commands by name."""

CHANGING = frozenset({"add", "connect", "disable", "disconnect", "enable", "import", "remove"})
"""Those that change the user's file, or that of a client: one at a time."""


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
