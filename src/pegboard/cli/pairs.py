"""Pairs that are typed as ``NAME=VALUE``."""

from collections.abc import Iterable
from typing import Annotated

import typer

__all__ = ["HeaderOption", "headers_in", "pairs_in"]

HeaderOption = Annotated[
    list[str] | None,
    typer.Option(
        "--header", metavar="NAME=VALUE", help="An HTTP header; may be given several times."
    ),
]


def headers_in(given: Iterable[str] | None) -> dict[str, str]:
    """Return headers by name; ``NAME: VALUE``, as curl has it, will do as well.

    Raises:
        typer.BadParameter: when one is neither.
    """
    as_pairs = (
        text.replace(":", "=", 1) if ":" in text.partition("=")[0] else text for text in given or ()
    )
    return {name: value.strip() for name, value in pairs_in(as_pairs, "--header").items()}


def pairs_in(given: Iterable[str], option: str) -> dict[str, str]:
    """Return values by name.

    Raises:
        typer.BadParameter: when one has no name.
    """
    found: dict[str, str] = {}
    for text in given:
        name, separator, value = text.partition("=")
        if not separator or not name.strip():
            # Not quoted: it may be a secret that lost its name.
            raise typer.BadParameter(f"`{option}` takes NAME=VALUE.")
        found[name.strip()] = value
    return found
