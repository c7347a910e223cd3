"""The table of commands: name, summary, and the module that is imported when it is called."""

__all__ = ["CHANGING", "COMMANDS", "HEADINGS", "Command", "front_page", "short_page"]


class Command:
    """One command: the module that has it, and its summary on the front page."""

    # Nothing is imported for it, not even dataclasses, so that `pegboard --help` prints at once.
    __slots__ = ("module", "summary")

    def __init__(self, module: str, summary: str) -> None:
        self.module: str = module
        self.summary: str = summary


HEADINGS: dict[str, dict[str, Command]] = {
    "Start": {
        "init": Command("init", "set Pegboard up: import, check and connect, step by step"),
        "serve": Command("serve", "serve all tools through one MCP endpoint"),
        "import": Command("import_servers", "import the servers of your MCP clients"),
        "connect": Command("connect", "add Pegboard to the configuration of an MCP client"),
        "disconnect": Command("disconnect", "remove Pegboard from a client and restore its file"),
        "doctor": Command(
            "doctor", "start every server once, and report problems with their remedies"
        ),
    },
    "Servers": {
        "find": Command("find", "find servers in an MCP registry, to add them"),
        "add": Command("add", "add a server to your configuration"),
        "outdated": Command("outdated", "list servers with a newer version in their MCP registry"),
        "upgrade": Command("upgrade", "upgrade a server, after its differences were shown"),
        "remove": Command("remove", "remove a server from your configuration"),
        "enable": Command("enable", "enable a disabled server"),
        "disable": Command("disable", "keep a server in your configuration, but do not use it"),
        "list": Command("list_servers", "list the servers of your configuration"),
        "status": Command("status", "show the state of each server"),
        "console": Command("console", "open the pages of the running gateway in a browser"),
        "logs": Command("logs", "show what servers wrote and what the gateway did with them"),
    },
    "Tools": {
        "search": Command("search", "find tools by what they do"),
        "show": Command("show", "show one tool: definition, signature, schema, cost"),
        "call": Command("call", "call a tool"),
        "tools": Command("tools", "list the tools"),
        "skills": Command("skills", "list skills and show one"),
        "categories": Command("categories", "list the tool categories"),
        "cost": Command("cost", "count the tokens that a model reads for each server"),
        "calls": Command("calls", "show the calls of a gateway, and follow them"),
        "tasks": Command("tasks", "list, show and cancel calls that run as tasks"),
        "usage": Command("usage", "show which tools are used most, slow, failing or never used"),
    },
    "Maintenance": {
        "keys": Command("keys", "create, list, revoke and rotate the API keys of the gateway"),
        "store": Command("store", "inspect, check, recover, migrate, export or import the store"),
        "service": Command("service", "let the system run the gateway when you log in"),
        "config": Command("config", "find and check the configuration, or print its schema"),
        "eval": Command("evaluate", "measure the search quality on your own data"),
        "demo-server": Command("demo_server", "run one of the four demo servers, to try things"),
        "uninstall": Command("uninstall", "undo everything, and remove all that Pegboard keeps"),
        "upgrade-notes": Command("upgrade_notes", "show what changed in each version"),
    },
}
"""What the front page shows, in its order."""

COMMANDS: dict[str, Command] = {
    name: command for commands in HEADINGS.values() for name, command in commands.items()
}
"""All commands by name."""

CHANGING = frozenset(
    {"add", "connect", "disable", "disconnect", "enable", "import", "remove", "uninstall"}
)
"""Commands that change the user's file, or a client's: they run one at a time.

`init` waits for its turn in the steps that change something.
"""


def short_page(*, bold: bool = False) -> str:
    """Return how to begin, and the names of the other commands: it fits a small terminal."""
    begin, end = ("\033[1m", "\033[0m") if bold else ("", "")
    (first, commands), *others = HEADINGS.items()
    lines = [
        "Usage: pegboard COMMAND [OPTIONS] ...",
        "",
        "Every MCP server and every tool on one board.",
        "",
        f"{begin}{first}:{end}",
        *(f"  {name:<12} {command.summary}" for name, command in commands.items()),
        "",
        *(f"{begin}{heading}:{end} {', '.join(names)}" for heading, names in others),
        "",
        "`pegboard --help` describes all commands, and `pegboard COMMAND --help` one of them.",
        "",
    ]
    return "\n".join(lines)


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
        "  --install-completion   install completion of commands and options (bash, zsh, fish)",
        "  --show-completion      print the completion script",
        "  --help                 show this page; `pegboard COMMAND --help` shows more",
        "",
    ]
    return "\n".join(lines)
