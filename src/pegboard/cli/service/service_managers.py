"""Service managers: start, stop and ask about the service through systemctl or launchctl."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from pegboard.cli.service.unit_files import LABEL, UNIT, ServicePlan, launchd_agent, systemd_unit

__all__ = ["Launchd", "NoServiceError", "ServiceManager", "ServiceState", "Systemd", "manager_here"]

_PATIENCE = 120.0
"""Seconds; stopping waits for running calls."""


class NoServiceError(Exception):
    """The system has no service manager for this user, or it refused; the message says more."""


class ServiceState(msgspec.Struct, frozen=True, kw_only=True):
    """What the system says about the service."""

    state: str
    """``active``, ``failed``, ``inactive``, …; ``not installed`` if there is no file."""
    pid: int | None = None
    starts_at_login: bool = False


class ServiceManager(Protocol):
    """A program of the system that runs services of a user."""

    @property
    def path(self) -> Path:
        """Where the file of the service belongs."""
        ...

    def written(self, plan: ServicePlan) -> bytes:
        """Return the file of a service."""
        ...

    def check(self) -> None:
        """Raise `NoServiceError` if this user can have no services here."""
        ...

    def commands(self, verb: str) -> Sequence[Sequence[str]]:
        """Return the commands for a verb: install, replace, start, stop, uninstall, uninstalled."""
        ...

    def state(self) -> ServiceState:
        """Ask for the state of the service."""
        ...

    def advice(self) -> str:
        """Return what a user has to know once the service is installed."""
        ...


class Systemd:
    """The systemd of the user's session."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        home = environ.get("XDG_CONFIG_HOME") or str(Path(environ.get("HOME", "~")) / ".config")
        self.path: Path = Path(home).expanduser() / "systemd" / "user" / UNIT
        """Where the file of the service belongs."""

    def written(self, plan: ServicePlan) -> bytes:
        """Return the unit."""
        return systemd_unit(plan)

    def check(self) -> None:
        """Raise `NoServiceError` if there is no session of systemd for this user."""
        try:
            output_of(["systemctl", "--user", "show-environment"])
        except NoServiceError as error:
            words = (
                f"There is no systemd session for this user: {error} Log in to the machine itself "
                "or by ssh (not by `su` or `sudo`); on a server, `sudo loginctl enable-linger "
                "USER` makes a session that lasts. In a container, or without systemd, let your "
                "own supervisor run the command that `pegboard service install --print` shows."
            )
            raise NoServiceError(words) from error

    def commands(self, verb: str) -> Sequence[Sequence[str]]:
        """Return the commands for a verb: install, replace, start, stop, uninstall, uninstalled."""
        reload = ["systemctl", "--user", "daemon-reload"]
        match verb:
            case "install":
                return [
                    reload,
                    ["systemctl", "--user", "enable", UNIT],
                    ["systemctl", "--user", "restart", UNIT],
                ]
            case "uninstall":
                return [["systemctl", "--user", "disable", "--now", UNIT]]
            case "uninstalled":
                return [reload]
            case "replace":
                return []
            case _:
                return [["systemctl", "--user", verb, UNIT]]

    def state(self) -> ServiceState:
        """Ask for the state of the service."""
        asked = "--property=ActiveState,MainPID,UnitFileState"
        said = output_of(["systemctl", "--user", "show", UNIT, asked])
        found = _fields(said, "=")
        pid = found.get("MainPID", "0")
        return ServiceState(
            state=found.get("ActiveState") or "unknown",
            pid=int(pid) if pid.isdigit() and int(pid) else None,
            starts_at_login=found.get("UnitFileState") == "enabled",
        )

    def advice(self) -> str:
        """Return what a user has to know once the service is installed."""
        return (
            "It runs while you are logged in; `loginctl enable-linger` lets it run without that. "
            "`journalctl --user -u pegboard` shows what the gateway says."
        )


class Launchd:
    """The launchd of the user's session on macOS."""

    def __init__(self, environ: Mapping[str, str], user: int) -> None:
        home = Path(environ.get("HOME", "~")).expanduser()
        self.path: Path = home / "Library" / "LaunchAgents" / f"{LABEL}.plist"
        """Where the file of the service belongs."""
        self._domain = f"gui/{user}"
        self._target = f"gui/{user}/{LABEL}"

    def written(self, plan: ServicePlan) -> bytes:
        """Return the property list."""
        return launchd_agent(plan)

    def check(self) -> None:
        """Raise `NoServiceError` if there is no graphical session of this user."""
        try:
            output_of(["launchctl", "print", self._domain])
        except NoServiceError as error:
            words = f"There is no launchd session for this user: {error} Log in at the screen."
            raise NoServiceError(words) from error

    def commands(self, verb: str) -> Sequence[Sequence[str]]:
        """Return the commands for a verb: install, replace, start, stop, uninstall, uninstalled."""
        match verb:
            case "install":
                return [["launchctl", "bootstrap", self._domain, str(self.path)]]
            case "uninstall" | "replace":
                return [["launchctl", "bootout", self._target]]
            case "uninstalled":
                return []
            case "start":
                return [["launchctl", "kickstart", self._target]]
            case _:
                return [["launchctl", "kill", "SIGTERM", self._target]]

    def state(self) -> ServiceState:
        """Ask for the state of the service."""
        try:
            said = output_of(["launchctl", "print", self._target])
        except NoServiceError:
            return ServiceState(state="inactive")
        found = _fields(said, " = ")
        state, pid = found.get("state", "unknown"), found.get("pid", "")
        return ServiceState(
            state="active" if state == "running" else state,
            pid=int(pid) if pid.isdigit() else None,
            starts_at_login=True,
        )

    def advice(self) -> str:
        """Return what a user has to know once the service is installed."""
        return "It runs while you are logged in."


def manager_here() -> ServiceManager:
    """Return the service manager of this system."""
    if sys.platform == "darwin":
        return Launchd(os.environ, os.getuid())
    return Systemd(os.environ)


def _fields(said: str, between: str) -> dict[str, str]:
    found = (it.strip().partition(between) for it in said.splitlines())
    return {name: value for name, _, value in found}


def output_of(command: Sequence[str]) -> str:
    """Run a program of the system, and return what it prints.

    Raises:
        NoServiceError: when there is no such program, or it fails; with what it said.
    """
    program = shutil.which(command[0])
    if program is None:
        raise NoServiceError(f"the program `{command[0]}` is not there.")
    try:
        done = subprocess.run(  # noqa: S603 - fixed words
            [program, *command[1:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
            timeout=_PATIENCE,
        )
    except subprocess.TimeoutExpired as error:
        raise NoServiceError(f"`{' '.join(command)}` did not end in time.") from error
    if done.returncode:
        said = " ".join((done.stderr or done.stdout).split()).rstrip(".")
        ended = f"it ended with code {done.returncode}"
        raise NoServiceError(f"`{' '.join(command)}`: {said or ended}.")
    return done.stdout
