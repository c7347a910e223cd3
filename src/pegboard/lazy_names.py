"""Lazy imports: names of a package whose modules are imported when they are first used."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module

__all__ = ["Listing", "Lookup", "lazy_names"]

Lookup = Callable[[str], object]
"""The type of a package's ``__getattr__``."""
Listing = Callable[[], list[str]]
"""The type of a package's ``__dir__``."""


def lazy_names(package: str, homes: Mapping[str, str]) -> tuple[Lookup, Listing]:
    """Return ``__getattr__`` and ``__dir__`` for a package.

    The package's ``__init__`` binds them, and lists the same names in ``__all__``::

        __getattr__, __dir__ = lazy_names(__name__, {"Registry": "registry"})

    A type checker does not follow this, so the ``__init__`` also imports the names under
    ``TYPE_CHECKING``.

    Args:
        package: its ``__name__``.
        homes: the module in it that has each of its names.
    """
    module = sys.modules[package]

    def find(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{homes[name]}"), name)
        # From now on Python finds the name without calling this function.
        setattr(module, name, value)
        return value

    return find, lambda: sorted(module.__all__)
