"""Configuration: add, edit and remove servers: edit, see the plan, apply it, undo it."""

import shlex
from functools import partial
from pathlib import Path
from typing import Any, cast

import anyio.to_thread
import msgspec
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from pegboard.config.files.servers_file import ServersFile
from pegboard.config.masking import masked_entry
from pegboard.config.redaction import environment_read_once
from pegboard.console.config_plans import ConfigPlan, ConfigPlans
from pegboard.console.request import PageRequest
from pegboard.errors import ConfigError

__all__ = ["show", "show_plan"]

_LONGEST = 200_000


class FileServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server as the file has it; it contains no secret."""

    name: str
    state: str
    transport: str
    target: str
    problem: str
    is_editable: bool


async def show(page: PageRequest) -> Response:
    """Show the servers of the file; a form that was sent makes a plan."""
    path = await _path(page)
    if page.request.method == "POST":
        return await _planned(page, path)
    plans = _plans(page)
    servers, problems, is_new = await anyio.to_thread.run_sync(partial(_servers, page, path))
    changes = await anyio.to_thread.run_sync(plans.changes, path, page.session)
    return await page.show(
        "configuration.html",
        file=str(path),
        is_new=is_new,
        servers=servers,
        problems=problems,
        changes=changes,
        is_owner=page.session.is_owner,
        editing=await _editing(page, path),
        given={it: page.asked(it)[:2000] for it in ("name", "target")},
    )


async def show_plan(page: PageRequest) -> Response:
    """Show a plan with its diff; a form that was sent applies it."""
    await _path(page)
    plans, plan_id = _plans(page), str(page.request.path_params["id"])
    if page.request.method == "POST":
        await page.form()
        change = await anyio.to_thread.run_sync(plans.apply, plan_id, page.session)
        page.note(f"config.{change.action}", change.name)
        await page.tenant.hub.reload(wait=False)
        return RedirectResponse(page.request.url_for("configuration").path, 303)
    plan = plans.find(plan_id, page.session)
    return await page.show("plan.html", plan=plan, file=str(plan.file.path))


async def _planned(page: PageRequest, path: Path) -> Response:
    form = await page.form()
    plans, session = _plans(page), page.session
    action, name = str(form.get("action", "")), str(form.get("name", "")).strip()

    def make() -> ConfigPlan:
        match action:
            case "add":
                if name in ServersFile(path).entries:
                    raise ConfigError(f"There is a server {name!r} already. Edit it instead.")
                return plans.put(path, name, _entry_in(form), session)
            case "edit":
                return plans.put(path, name, _decoded(str(form.get("entry", ""))), session)
            case "remove":
                return plans.remove(path, name, session)
            case "enable" | "disable":
                return plans.switch(path, name, session, on=action == "enable")
            case "undo":
                return plans.undo(str(form.get("change", "")), session)
            case _:
                raise HTTPException(400, "There is no such action.")

    plan = await anyio.to_thread.run_sync(make)
    return RedirectResponse(page.request.url_for("plan", id=plan.id).path, 303)


async def _editing(page: PageRequest, path: Path) -> tuple[str, str] | None:
    """Return the name and the masked entry of the server that is to be edited."""
    name = page.asked("edit")
    if not name:
        return None
    entries = await anyio.to_thread.run_sync(lambda: ServersFile(path).entries)
    if name not in entries:
        raise HTTPException(404, "The file has no server of this name.")
    return name, masked_entry(entries[name].value)


async def _path(page: PageRequest) -> Path:
    """Return the file that a person may edit.

    Raises:
        HTTPException: when the person may not, or there is no file.
    """
    page.need("admin")
    if not page.edits:
        raise HTTPException(403, "Your grant is limited to some servers or tools.")
    path = await anyio.to_thread.run_sync(page.sources.file_of, page.principal.tenant)
    if path is None:
        raise HTTPException(404, "The configuration of this gateway is not a file.")
    return path


def _plans(page: PageRequest) -> ConfigPlans:
    return page.request.app.state.plans


def _servers(page: PageRequest, path: Path) -> tuple[list[FileServer], list[str], bool]:
    file = ServersFile(path)
    found: list[FileServer] = []
    with environment_read_once():
        for name, reading in file.readings().items():
            config = reading.config
            worst = sorted(reading.problems, key=lambda it: it.severity)
            state = "enabled" if config is not None and config.enabled else "disabled"
            is_remote = config is not None and config.transport != "stdio"
            found.append(
                FileServer(
                    name=name,
                    state="unusable" if config is None else state,
                    transport="" if config is None else config.transport,
                    target="" if config is None else config.target,
                    problem=worst[0].message if worst else "",
                    is_editable=page.session.is_owner or is_remote,
                )
            )
    return found, [it.message for it in file.problems], file.is_new


def _entry_in(form: FormData) -> dict[str, Any]:
    """Return the entry that the fields of the form for a new server describe.

    Raises:
        ConfigError: when they describe none.
    """
    target = str(form.get("target", "")).strip()
    pairs = _pairs(str(form.get("pairs", "")))
    if "://" in target.split(" ", 1)[0]:
        entry: dict[str, Any] = {"url": target, **({"headers": pairs} if pairs else {})}
    else:
        try:
            words = shlex.split(target)
        except ValueError as error:
            raise ConfigError(f"The command cannot be read: {error}.") from error
        if not words:
            raise ConfigError("Write the address of the server, or its command.")
        command, *args = words
        entry = {"command": command}
        entry |= {"args": args} if args else {}
        entry |= {"env": pairs} if pairs else {}
    return entry | ({"lazy": True} if form.get("lazy") else {})


def _pairs(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, separator, value = line.partition("=")
        if not line.strip():
            continue
        if not separator or not name.strip():
            # Not quoted: it may be a secret that lost its name.
            raise ConfigError("Each line is NAME=VALUE.")
        found[name.strip()] = value.strip()
    return found


def _decoded(text: str) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(text[:_LONGEST])
    except (msgspec.DecodeError, RecursionError) as error:
        raise ConfigError(f"The entry is not JSON: {error}.") from error
    if not isinstance(found, dict):
        raise ConfigError("The entry is a JSON object.")
    return cast("dict[str, Any]", found)
