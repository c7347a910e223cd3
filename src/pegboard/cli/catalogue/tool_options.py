"""Options that commands about tools share, such as --config, --store and --server."""

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
    str | None,
    typer.Option(
        "--config", metavar="FILE", help="Configuration file (default: see `pegboard config path`)."
    ),
]
StoreUrl = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help="Store with the cached tools (default: PEGBOARD_STORE, or your own store).",
    ),
]
Alone = Annotated[bool, typer.Option("--alone", help="Do not use a running gateway.")]
Refresh = Annotated[
    bool, typer.Option("--refresh", help="Start all servers, even if their tools are cached.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Servers = Annotated[
    list[str] | None,
    typer.Option("--server", metavar="NAME", help="Only tools of this server. Can be repeated."),
]
Categories = Annotated[
    list[str] | None,
    typer.Option(
        "--category", metavar="NAME", help="Only tools of this category. Can be repeated."
    ),
]
Tags = Annotated[
    list[str] | None,
    typer.Option("--tag", metavar="NAME", help="Only tools with this tag. Can be repeated."),
]


def chosen(
    tools: Iterable[Tool],
    *,
    servers: Sequence[str] | None,
    categories: Sequence[str] | None,
    tags: Sequence[str] | None,
) -> list[Tool]:
    """Return the tools of these servers and categories that have one of these tags.

    A tool without a category belongs to the one that is named like its server.
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
