"""How a missing Python package is installed where a server runs: with pip, uv or pipx."""

import re
import shutil
from pathlib import Path

from pegboard.config import ServerConfig
from pegboard.doctor.report import shown
from pegboard.upstream.stdio.environment import environment_for

__all__ = ["how_to_install"]

_PYTHON = re.compile(r"python[\d.]*(?:\.exe)?|pypy[\d.]*")
_PIP = ("lib/python3*/site-packages/pip", "lib/python3*/dist-packages/pip", "Lib/site-packages/pip")


def how_to_install(package: str, config: ServerConfig) -> str:
    """Return the command that installs a package for a server's Python. Blocking.

    The environment of a tool of uv, and an environment that uv made, have no pip.
    """
    path = environment_for(config, "")["PATH"]
    python = _python_of(config, path)
    if python is None:
        return f"python -m pip install {package}"
    root = python.parent.parent
    if (root / "uv-receipt.toml").is_file():
        return f"uv tool install {root.name} --with {package}"
    if (root / "pipx_metadata.json").is_file():
        return f"pipx inject {root.name} {package}"
    name = shown(config.redact(str(python)), 120)
    if _has_pip(python):
        return f"{name} -m pip install {package}"
    if _made_by_uv(root) or shutil.which("uv", path=path):
        return f"uv pip install --python {name} {package}"
    return f"{name} -m ensurepip && {name} -m pip install {package}"


def _python_of(config: ServerConfig, path: str) -> Path | None:
    """Return the Python that runs a server: its command, or what the command's script names."""
    there = shutil.which(config.command or "", path=path)
    if there is None:
        return None
    # A link is not followed: it is what tells an environment from the Python that it is based on.
    program = Path(config.cwd or "") / there
    if _PYTHON.fullmatch(program.name):
        return program
    try:
        with program.open("rb") as file:
            words = file.readline(256).decode(errors="replace").removeprefix("#!").split()
    except OSError:
        return None
    return Path(words[0]) if words and _PYTHON.fullmatch(Path(words[0]).name) else None


def _has_pip(python: Path) -> bool:
    root = python.parent.parent
    is_environment = (root / "pyvenv.cfg").is_file()
    base = root if is_environment else python.resolve().parent.parent
    found = any(any(base.glob(it)) for it in _PIP)
    # Debian keeps it in a folder without a minor version.
    return found or (not is_environment and (base / "lib/python3/dist-packages/pip").is_dir())


def _made_by_uv(root: Path) -> bool:
    try:
        lines = (root / "pyvenv.cfg").read_text("utf-8").splitlines()
    except (OSError, ValueError):
        return False
    return any(it.partition("=")[0].strip() == "uv" for it in lines)
