"""Environments of the peers, made on first use inside `bench/.envs/`."""

import json
import os
import subprocess
import sys
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


def python_of(peer: str) -> Path:
    """Return the interpreter of a peer's environment; install it if it is not there."""
    home = ROOT / "bench" / ".envs" / peer
    python = home / "bin" / "python"
    done = home / ".installed"
    if not done.exists():
        print(f"Installing {', '.join(PEERS[peer])} into bench/.envs/{peer}", file=sys.stderr)
        quiet = {**os.environ, "UV_PYTHON_DOWNLOADS": "never"}
        subprocess.run(
            [UV, "venv", "-q", "--clear", "-p", sys.executable, home], check=True, env=quiet
        )
        subprocess.run(
            [UV, "pip", "install", "-q", "-p", python, *PEERS[peer]], check=True, env=quiet
        )
        done.touch()
    return python


def versions(python: Path, packages: list[str]) -> dict[str, str]:
    """Return the versions of some packages in an environment."""
    code = (
        "import json, sys; from importlib.metadata import version; "
        "print(json.dumps({name: version(name) for name in sys.argv[1:]}))"
    )
    run = subprocess.run(
        [python, "-c", code, *packages], capture_output=True, encoding="utf-8", check=True
    )
    return json.loads(run.stdout)
