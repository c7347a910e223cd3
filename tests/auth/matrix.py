"""Who may do what, by every path: the table that all faces of the gateway have to follow.

Asked for is always what the server `vault` of the default tenant offers: the tool `open`, shown as
`mcp_vault_open`, a prompt and a resource.
"""

import time
from typing import Literal

from pegboard.model.principal import ALL_SCOPES, Principal, Scope

__all__ = ["CELLS", "PATHS", "PRINCIPALS", "SERVER", "TOOL", "Verdict"]

SERVER = "vault"
TOOL = "mcp_vault_open"

Verdict = Literal["yes", "denied", "absent"]
"""Done; told that it may not, whether the thing exists or not; told that there is no such thing."""


def _somebody(name: str, *scopes: Scope, **more: object) -> Principal:
    return Principal(subject=name, scopes=frozenset(scopes), **more)  # pyright: ignore[reportArgumentType]


PRINCIPALS: dict[str, Principal] = {
    it.subject: it
    for it in (
        _somebody("nobody"),
        _somebody("reader", "read"),
        _somebody("caller", "call"),
        _somebody("registrar", "register"),
        _somebody("reading registrar", "read", "register"),
        _somebody("admin", "admin"),
        _somebody("admin of yesterday", *ALL_SCOPES, expires=time.time() - 1),
        _somebody("caller of this server", "call", servers=(SERVER,)),
        _somebody("caller of this tool", "call", tools=(TOOL,)),
        _somebody("reader of this tool", "read", tools=(TOOL,)),
        _somebody("caller of another server", "call", servers=("shop",)),
        _somebody("caller of other tools", "call", tools=("mcp_shop_*",)),
        _somebody("admin of another server", "admin", servers=("shop",)),
        _somebody("registrar of this server", "read", "register", servers=(SERVER,)),
        _somebody("registrar of another server", "read", "register", servers=("shop",)),
        _somebody("caller of another tenant", "call", tenant="other"),
        _somebody("admin of another tenant", "admin", tenant="other"),
    )
}

PATHS: dict[str, str] = {
    "list": "the tool is in tools/list of the full surface",
    "search": "search_tools finds it",
    "describe": "get_tool_definition shows it",
    "category": "list_tools_by_category lists it",
    "call": "tools/call by its name",
    "call_tool": "call_tool",
    "result": "read_result of a large result of one's own",
    "others": "read_result of somebody else's result",
    "resources": "the resource is in resources/list",
    "read": "resources/read",
    "watch": "resources/subscribe, or in the modern era subscriptions/listen",
    "prompts": "the prompt is in prompts/list",
    "prompt": "prompts/get",
    "complete": "completion/complete of an argument of the prompt",
    "register": "register_tool for this server",
    "replace": "register_tool under the name of the tool",
    "remove": "unregister_tool of a definition that was registered for this server",
    "steal": "unregister_tool of the tool itself, or of one's own under its name in another tenant",
    "own": "a tool of the gateway itself is in tools/list of the search surface",
    "stats": "resources/read of registry://stats, one's own part",
}

# y: yes, d: denied, -: absent.
_TABLE = """
                            list search describe category call call_tool result others resources read watch prompts prompt complete register replace remove steal own stats
nobody                      d    d      d        d        d    d         d      d      d         d    d     d       d      d        d        d       d      d     d   d
reader                      y    y      y        y        d    d         d      d      y         d    d     y       d      d        d        d       d      d     y   y
caller                      y    y      y        y        y    y         y      -      y         y    y     y       y      y        d        d       d      d     y   y
registrar                   -    d      d        d        d    d         d      d      d         d    d     d       d      d        y        d       y      d     y   d
reading_registrar           y    y      y        y        d    d         d      d      y         d    d     y       d      d        y        d       y      d     y   y
admin                       y    y      y        y        y    y         y      -      y         y    y     y       y      y        y        d       y      d     y   y
admin_of_yesterday          d    d      d        d        d    d         d      d      d         d    d     d       d      d        d        d       d      d     d   d
caller_of_this_server       y    y      y        y        y    y         y      -      y         y    y     y       y      y        d        d       d      d     y   y
caller_of_this_tool         y    y      y        y        y    y         y      -      -         -    -     -       -      -        d        d       d      d     y   y
reader_of_this_tool         y    y      y        y        d    d         d      d      -         d    d     -       d      d        d        d       d      d     y   y
caller_of_another_server    -    -      -        -        -    -         -      -      -         -    -     -       -      -        d        d       d      d     y   y
caller_of_other_tools       -    -      -        -        -    -         -      -      -         -    -     -       -      -        d        d       d      d     y   y
admin_of_another_server     -    -      -        -        -    -         -      -      -         -    -     -       -      -        d        d       -      -     y   y
registrar_of_this_server    y    y      y        y        d    d         d      d      y         d    d     y       d      d        y        d       y      d     y   y
registrar_of_another_server -    -      -        -        d    d         d      d      -         d    d     -       d      d        d        d       -      -     y   y
caller_of_another_tenant    -    -      -        -        -    -         -      -      -         -    -     -       -      -        d        d       d      d     y   y
admin_of_another_tenant     -    -      -        -        -    -         -      -      -         -    -     -       -      -        y        y       -      y     y   y
"""  # noqa: E501 - one row is one principal
_VERDICTS: dict[str, Verdict] = {"y": "yes", "d": "denied", "-": "absent"}


def _cells() -> dict[tuple[str, str], Verdict]:
    header, *rows = (line.split() for line in _TABLE.strip().splitlines())
    assert header == list(PATHS)
    assert [name.replace("_", " ") for name, *_ in rows] == list(PRINCIPALS)
    return {
        (name.replace("_", " "), path): _VERDICTS[letter]
        for name, *letters in rows
        for path, letter in zip(PATHS, letters, strict=True)
    }


CELLS: dict[tuple[str, str], Verdict] = _cells()
"""The verdict for each principal and path."""
