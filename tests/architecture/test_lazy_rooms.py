"""Packages that import their names late give the same names, whatever was imported before."""

import subprocess
import sys
from pathlib import Path

import pytest

import pegboard

SOURCE = Path(pegboard.__file__).parent
LAZY = sorted(
    it.parent.name for it in SOURCE.glob("*/__init__.py") if "_HOMES" in it.read_text("utf-8")
)


@pytest.mark.parametrize("room", LAZY)
def test_no_module_takes_the_place_of_a_public_name(room: str) -> None:
    code = f"""
import importlib, pkgutil, types
import pegboard.{room} as room
for it in pkgutil.iter_modules(room.__path__):
    if not it.name.startswith("__"):
        importlib.import_module(f"pegboard.{room}.{{it.name}}")
taken = [it for it in room.__all__ if isinstance(getattr(room, it), types.ModuleType)]
assert not taken, taken
assert dir(room) == sorted(room.__all__)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
