"""The files of the service: a systemd user unit and a launchd agent, and whether they are ours."""

import hashlib
import plistlib
import re
from collections.abc import Mapping
from typing import Any

import msgspec

__all__ = ["LABEL", "UNIT", "ServicePlan", "is_as_written", "launchd_agent", "systemd_unit"]

UNIT = "pegboard.service"
LABEL = "pegboard.gateway"
"""The name of the agent in launchd."""
_STOP_SECONDS = 15.0
"""How much longer than its running calls the gateway may take to stop its servers."""
_RESTART_SECONDS = 5
_DIGEST = re.compile(rb"written by `pegboard service install`, sha256 ([0-9a-f]{64})")
_NO_DIGEST = b"0" * 64


class ServicePlan(msgspec.Struct, frozen=True, kw_only=True):
    """What runs as a service."""

    command: tuple[str, ...]
    """The absolute path of the program, and its arguments."""
    folder: str
    """The working directory."""
    environment: Mapping[str, str]
    log: str
    """A file for what the gateway writes to standard error, where the system has no journal."""
    drain: float = 30.0
    """How long running calls may take to finish when the service stops."""


def systemd_unit(plan: ServicePlan) -> bytes:
    """Return a user unit for systemd."""
    lines = [
        _heading("#"),
        "[Unit]",
        "Description=Pegboard, one MCP endpoint for all tools",
        "",
        "[Service]",
        f"ExecStart={' '.join(_word(it, is_command=True) for it in plan.command)}",
        f"WorkingDirectory={plan.folder.replace('%', '%%')}",
        *(f"Environment={_word(f'{name}={it}')}" for name, it in plan.environment.items()),
        "ExecReload=/bin/kill -HUP $MAINPID",
        "Restart=on-failure",
        f"RestartSec={_RESTART_SECONDS}",
        "# Only the process itself gets the signal: it stops its servers.",
        "KillMode=mixed",
        f"TimeoutStopSec={_stop_seconds(plan)}",
        "",
        "[Install]",
        "WantedBy=default.target",
        "",
    ]
    return _signed("\n".join(lines).encode())


def launchd_agent(plan: ServicePlan) -> bytes:
    """Return an agent for launchd, as a property list."""
    content: dict[str, Any] = {
        "Label": LABEL,
        "ProgramArguments": list(plan.command),
        "WorkingDirectory": plan.folder,
        "EnvironmentVariables": dict(plan.environment),
        "RunAtLoad": True,
        # As systemd's `on-failure`: not after it was stopped.
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": _RESTART_SECONDS,
        "ExitTimeOut": _stop_seconds(plan),
        "StandardOutPath": plan.log,
        "StandardErrorPath": plan.log,
    }
    written = plistlib.dumps(content, sort_keys=False)
    begin, mark, rest = written.partition(b"<plist")
    return _signed(begin + f"<!-- {_heading('')} -->\n".encode() + mark + rest)


def is_as_written(content: bytes) -> bool:
    """Tell whether a file is one of ours that is still as it was written."""
    found = _DIGEST.search(content)
    if found is None:
        return False
    return _signed(content.replace(found[1], _NO_DIGEST, 1)) == content


def _heading(mark: str) -> str:
    words = f"written by `pegboard service install`, sha256 {_NO_DIGEST.decode()}"
    return f"{mark} {words}".strip()


def _signed(content: bytes) -> bytes:
    return content.replace(_NO_DIGEST, hashlib.sha256(content).hexdigest().encode(), 1)


def _stop_seconds(plan: ServicePlan) -> int:
    return int(plan.drain + _STOP_SECONDS)


def _word(text: str, *, is_command: bool = False) -> str:
    """Return a word in quotes, in which systemd replaces nothing."""
    for before, after in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\t", "\\t"), ("%", "%%")):
        text = text.replace(before, after)
    return f'"{text.replace("$", "$$") if is_command else text}"'
