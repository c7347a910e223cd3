"""Environments of the peers, and of an older Pegboard, made on first use in `bench/.envs/`."""

import functools
import io
import json
import os
import platform
import subprocess
import sys
import tarfile
from pathlib import Path

from bench.measure import ROOT

UV = ROOT / ".tools" / "bin" / "uv"
PEERS = {
    "fastmcp": ["fastmcp>=4.1,<5"],
    "jsonschema": ["jsonschema>=4.25"],
    "agentscope": ["agentscope>=2,<3"],
    "registrytools": ["registry-tools==0.2.1"],
    "mcp-proxy": ["mcp-proxy>=0.13,<0.14"],
    "contextforge": ["mcp-contextforge-gateway>=1.0,<2"],
    "tokens": ["bpe-openai>=0.1.4,<0.2"],
}
NEWER_PYTHON = {"contextforge": ">=3.12,<3.14"}
"""What a peer's newest version needs. Without it, the newest version for this interpreter runs."""
BEFORE = "87316cd85a296d7f1feb10fb00e8c7e2fd5add03"
"""The last commit that had one way for plain HTTP and a second one for HTTPS."""
INSTALLED = ("src", "changelog.d", "pyproject.toml", "uv.lock", "README.md", "LICENSE")
"""What an installation needs of a commit."""
ENVIRONMENTS = ROOT / "bench" / ".envs"


def python_of(peer: str) -> Path:
    """Return the interpreter of a peer's environment; install it if it is not there."""
    home = ENVIRONMENTS / peer
    python = home / "bin" / "python"
    done = home / ".installed"
    if not done.exists():
        print(f"Installing {', '.join(PEERS[peer])} into bench/.envs/{peer}", file=sys.stderr)
        _uv("venv", "-q", "--clear", "-p", _interpreter(peer), home)
        _uv("pip", "install", "-q", "-p", python, *PEERS[peer])
        done.touch()
    return python


@functools.cache
def python_before() -> Path | None:
    """Return the interpreter of the commit `BEFORE`, or None if the checkout has no such commit.

    The commit brings its own lock file, so its dependencies are those of its day.
    """
    home = ENVIRONMENTS / f"pegboard-{BEFORE[:7]}"
    python = home / ".venv" / "bin" / "python"
    done = home / ".installed"
    if not done.exists():
        archive = subprocess.run(
            ["git", "archive", BEFORE, *INSTALLED], cwd=ROOT, capture_output=True, check=False
        )
        if archive.returncode != 0:
            return None
        print(f"Installing commit {BEFORE[:7]} into {home.relative_to(ROOT)}", file=sys.stderr)
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
            files.extractall(home, filter="data")
        _uv("venv", "-q", "--clear", "-p", sys.executable, home / ".venv")
        sync = ["sync", "-q", "--locked", "--no-dev", "--no-editable", "--project", home]
        _uv(*sync, "--python", python, UV_PROJECT_ENVIRONMENT=str(home / ".venv"))
        done.touch()
    return python


def _interpreter(peer: str) -> str:
    wanted = NEWER_PYTHON.get(peer)
    if wanted is None:
        return sys.executable
    # pyenv hides the interpreters that it does not find in this variable.
    quiet = {**os.environ, "UV_PYTHON_DOWNLOADS": "never", "PYENV_VERSION": "3.12"}
    found = subprocess.run(
        [UV, "python", "find", wanted],
        capture_output=True,
        encoding="utf-8",
        env=quiet,
        check=False,
    )
    return found.stdout.strip() or sys.executable


def _uv(*arguments: str | Path, **more: str) -> None:
    environ = {**os.environ, "UV_PYTHON_DOWNLOADS": "never", **more}
    subprocess.run([UV, *arguments], check=True, env=environ)


def versions(python: Path, packages: list[str]) -> dict[str, str]:
    """Return the versions of those packages that an environment has, and its Python if not ours."""
    code = (
        "import json, platform, sys; from importlib.metadata import distributions; "
        "has = {it.name.lower().replace('_', '-'): it.version for it in distributions()}; "
        "print(json.dumps({'python': platform.python_version()} | "
        "{name: has[name] for name in sys.argv[1:] if name in has}))"
    )
    run = subprocess.run(
        [python, "-c", code, *packages], capture_output=True, encoding="utf-8", check=True
    )
    found: dict[str, str] = json.loads(run.stdout)
    if found["python"] == platform.python_version():
        del found["python"]
    return found
