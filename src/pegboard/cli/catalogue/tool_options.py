"""Options that all commands about tools have."""

import os
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Annotated

import typer

from pegboard.model import Tool
from pegboard.model.tool import category_of

__all__ = [
    "Alone",
    "Categories",
    "Config",
    "Json",
    "Refresh",
    "Servers",
    "StoreUrl",
    "Tags",
    "calculate_on_one_core",
    "chosen",
]

Config = Annotated[
    str | None, typer.Option("--config", metavar="FILE", help="The servers (mcp.json, looked for).")
]
StoreUrl = Annotated[
    str | None,
    typer.Option(
        "--store", metavar="URL", help="What is remembered (PEGBOARD_STORE, or your own)."
    ),
]
Alone = Annotated[
    bool, typer.Option("--alone", help="Do not ask the gateway that runs, if there is one.")
]
Refresh = Annotated[
    bool, typer.Option("--refresh", help="Start the servers, also those that are remembered.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Servers = Annotated[
    list[str] | None,
    typer.Option("--server", metavar="NAME", help="Only of this server; several may be named."),
]
Categories = Annotated[
    list[str] | None,
    typer.Option("--category", metavar="NAME", help="Only of this category; several may be named."),
]
Tags = Annotated[
    list[str] | None,
    typer.Option("--tag", metavar="NAME", help="Only with this tag; several may be named."),
]


def chosen(
    tools: Iterable[Tool],
    *,
    servers: Sequence[str] | None,
    categories: Sequence[str] | None,
    tags: Sequence[str] | None,
) -> list[Tool]:
    """Return the tools that are of these servers, of these categories and have one of these tags.

    A tool without a category counts to one that is named like its server.
    """
    return [
        tool
        for tool in tools
        if (not servers or tool.server in servers)
        and (not categories or category_of(tool) in categories)
        and (not tags or not set(tags).isdisjoint(tool.tags))
    ]


# Read by the libraries that NumPy may be built with, when it is first imported.
_SETTINGS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")


def calculate_on_one_core() -> None:
    """Import NumPy so that it starts no threads, unless the environment says how many.

    On a busy machine a search of a millisecond would wait for twenty until its second thread had
    its turn. The environment stays as it was: the servers that are started inherit it.
    """
    if any(name in os.environ for name in _SETTINGS):
        return
    os.environ.update(dict.fromkeys(_SETTINGS, "1"))
    try:
        import_module("numpy")
    finally:
        for name in _SETTINGS:
            del os.environ[name]
