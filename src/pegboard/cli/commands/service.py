"""`pegboard service`: let the system run the gateway, as a systemd user unit or launchd agent."""

import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from pegboard.cli.commands.serve import serve
from pegboard.cli.exit_codes import FAILED, NOT_FOUND
from pegboard.cli.files.user_file import own_command
from pegboard.cli.service.service_managers import (
    NoServiceError,
    ServiceManager,
    ServiceState,
    manager_here,
    output_of,
)
from pegboard.cli.service.unit_files import ServicePlan, is_as_written
from pegboard.cli.terminal.output import ask, complain, say, warn, write_json
from pegboard.cli.terminal.plain_text import NOT_ON_WINDOWS
from pegboard.config import locate_config
from pegboard.config.atomic_write import make_folder, write_file
from pegboard.errors import ConfigError
from pegboard.observe.server_log import default_log_folder

__all__ = ["add_to", "installed_service", "uninstall"]

_service = typer.Typer(
    help="Let the system run the gateway: install, start, stop, status, uninstall.",
    no_args_is_help=True,
)
_COPIED = re.compile(r"PATH|LANG|LC_ALL|XDG_\w+_HOME|PEGBOARD_\w+")
"""The variables that the service gets as they are now."""
_NOT_COPIED = frozenset({"PEGBOARD_DEBUG", "PEGBOARD_CHILD"})
_REFERENCE = re.compile(r"\$\{(?:env:)?([A-Za-z_]\w*)\}")
_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def add_to(root: typer.Typer) -> None:
    """Add the commands to an application."""
    root.add_typer(_service, name="service")


@_service.command()
def install(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="-- OPTIONS",
            help="Options of `pegboard serve`, after `--`.",
            show_default=False,
        ),
    ] = None,
    *,
    config: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Configuration file (default: see `pegboard config path`)."
        ),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Also give the service this variable, as it is now. Can be repeated.",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Install without asking.")] = False,
    show: Annotated[
        bool, typer.Option("--print", help="Print the file of the service, and install nothing.")
    ] = False,
) -> None:
    """Install the gateway as a service of your user, and start it.

    It starts when you log in, and again when it fails. It runs in the present folder, with the
    present PATH and PEGBOARD_ variables, and with the options that you give after `--`.
    """
    manager = _manager()
    plan = _plan(words or [], config, env or [])
    content = manager.written(plan)
    if show:
        sys.stdout.write(content.decode())
        return
    path = manager.path
    before = path.read_bytes() if path.is_file() else None
    if before is not None and not is_as_written(before):
        complain(f"{path} is not as `pegboard service` wrote it. Move it away first.")
        raise typer.Exit(FAILED)
    _checked(manager)
    _show_plan(manager, plan, replaces=before is not None)
    if not yes and not ask("Install it?"):
        warn("Nothing was changed; `--yes` installs it without a question.")
        raise typer.Exit(FAILED)
    make_folder(path.parent)
    if before is not None:
        _run(manager.commands("replace"), may_fail=True)
    write_file(path, content, instead_of=before)
    _run(manager.commands("install"))
    say(f"Installed and started: {path}")
    say(manager.advice())


@_service.command()
def start() -> None:
    """Start the service."""
    _installed_and_run("start")
    say("Started.")


@_service.command()
def stop() -> None:
    """Stop the service until the next login; running calls may finish."""
    _installed_and_run("stop")
    say("Stopped.")


@_service.command()
def status(*, json: _Json = False) -> None:
    """Show whether the service is installed and runs; the exit code is 3 if it does not run."""
    manager = _manager()
    found = ServiceState(state="not installed")
    if manager.path.is_file():
        _checked(manager)
        found = manager.state()
    if json:
        write_json(state_as_json(manager, found))
    else:
        process = "" if found.pid is None else f", process {found.pid}"
        say(f"{found.state}{process}")
        if found.state != "not installed":
            say(f"  file             {manager.path}")
            say(f"  starts at login  {'yes' if found.starts_at_login else 'no'}")
    if found.state != "active":
        raise typer.Exit(NOT_FOUND)


@_service.command()
def uninstall(
    *, yes: Annotated[bool, typer.Option("--yes", "-y", help="Remove it without asking.")] = False
) -> None:
    """Stop the service, and remove exactly what `install` wrote. Your data stays."""
    manager = _manager()
    path = _installed(manager)
    if not is_as_written(path.read_bytes()):
        complain(f"{path} was changed since it was installed. Look at it, and remove it yourself.")
        raise typer.Exit(FAILED)
    warn(f"This stops the service and removes {path}")
    if not yes and not ask("Remove it?"):
        warn("Nothing was changed; `--yes` removes it without a question.")
        raise typer.Exit(FAILED)
    _run(manager.commands("uninstall"), may_fail=manager.state().state == "inactive")
    path.unlink()
    _run(manager.commands("uninstalled"))
    say(f"Removed {path}")


def installed_service() -> ServiceManager | None:
    """Return what runs the gateway as a service; ``None`` if none is installed."""
    try:
        manager = manager_here()
    except NoServiceError:
        return None
    return manager if manager.path.is_file() else None


def state_as_json(manager: ServiceManager, state: ServiceState) -> dict[str, Any]:
    """Return the state as ``--json`` prints it: one object.

    ``state`` (``active``, ``inactive``, ``failed``, ``not installed``, or another word of the
    system), ``pid`` (or null), ``starts_at_login`` and ``file``.
    """
    return {**msgspec.to_builtins(state), "file": str(manager.path)}


def _plan(words: Sequence[str], config: str | None, names: Sequence[str]) -> ServicePlan:
    options = _options_of(words)
    if options.get("stdio"):
        raise typer.BadParameter(
            "A service has no client at its standard input.", param_hint="--stdio"
        )
    source = config or options.get("config")
    found = None if options.get("demo") else locate_config(source).path
    if found is None and not options.get("demo"):
        raise ConfigError("There is no configuration file; name one with `--config`.")
    if config is not None and options.get("config"):
        raise typer.BadParameter("It is given twice.", param_hint="--config")
    # The same file, wherever the service looks for one.
    chosen = [] if found is None or options.get("config") else ["--config", str(found.resolve())]
    missing = [it for it in names if it not in os.environ]
    if missing:
        raise typer.BadParameter(f"{missing[0]} is not set.", param_hint="--env")
    command, *args = own_command()
    return ServicePlan(
        command=(os.path.abspath(command), *args, "serve", *chosen, *words),  # noqa: PTH100 - keeps links
        folder=str(Path.cwd()),
        environment={
            name: value
            for name, value in sorted(os.environ.items())
            if name in names or (_COPIED.fullmatch(name) and name not in _NOT_COPIED)
        },
        log=str(default_log_folder().parent / "gateway.log"),
        drain=float(options.get("drain") or 0.0),
    )


def _options_of(words: Sequence[str]) -> Mapping[str, Any]:
    """Return the options of `pegboard serve` in these words.

    Raises:
        typer.BadParameter: when it has no such option.
    """
    application = typer.Typer()
    application.command("serve")(serve)
    return typer.main.get_command(application).make_context("serve", list(words)).params


def _show_plan(manager: ServiceManager, plan: ServicePlan, *, replaces: bool) -> None:
    warn(f"This {'replaces' if replaces else 'writes'} {manager.path}, and starts the service:")
    warn(f"  command          {shlex.join(plan.command)}")
    warn(f"  folder           {plan.folder}")
    warn(f"  variables        {', '.join(plan.environment)}")
    warn("  restart          when it fails, after 5 seconds; and at each login")
    absent = sorted(_references(plan) - plan.environment.keys())
    if absent:
        options = " ".join(f"--env {it}" for it in absent)
        warn(f"The configuration uses variables that the service does not get; add: {options}")


def _references(plan: ServicePlan) -> set[str]:
    if "--config" not in plan.command:
        return set()
    path = Path(plan.command[plan.command.index("--config") + 1])
    try:
        return set(_REFERENCE.findall(path.read_text("utf-8", "replace"))) - {"HOME", "USER"}
    except OSError:
        return set()


def _manager() -> ServiceManager:
    if sys.platform == "win32":
        complain(NOT_ON_WINDOWS)
        raise typer.Exit(FAILED)
    return manager_here()


def _checked(manager: ServiceManager) -> None:
    try:
        manager.check()
    except NoServiceError as error:
        complain(str(error))
        raise typer.Exit(FAILED) from error


def _installed(manager: ServiceManager) -> Path:
    if not manager.path.is_file():
        complain("The service is not installed; `pegboard service install` does that.")
        raise typer.Exit(NOT_FOUND)
    _checked(manager)
    return manager.path


def _installed_and_run(verb: str) -> None:
    manager = _manager()
    _installed(manager)
    _run(manager.commands(verb))


def _run(commands: Sequence[Sequence[str]], *, may_fail: bool = False) -> None:
    for command in commands:
        try:
            output_of(command)
        except NoServiceError as error:
            if not may_fail:
                complain(str(error))
                raise typer.Exit(FAILED) from error
