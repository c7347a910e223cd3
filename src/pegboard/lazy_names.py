"""Names of a package that are imported when they are first used."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module

__all__ = ["Listing", "Lookup", "lazy_names"]

Lookup = Callable[[str], object]
"""What a package has as ``__getattr__``,"""
Listing = Callable[[], list[str]]
"""and as ``__dir__``."""


def lazy_names(package: str, homes: Mapping[str, str]) -> tuple[Lookup, Listing]:
    """Return ``__getattr__`` and ``__dir__`` for a package.

    Args:
        package: its ``__name__``.
        homes: the module in it that has each of its names.
    """
    module = sys.modules[package]

    def find(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{homes[name]}"), name)
        # From now on nobody has to look for it.
        setattr(module, name, value)
        return value

    return find, lambda: sorted(module.__all__)
