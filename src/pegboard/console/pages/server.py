"""Server: one server with its tools, its log, what was negotiated with it, and what can be done."""

from functools import partial
from typing import TYPE_CHECKING, Any

import anyio.to_thread
import msgspec
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from pegboard.config.files.servers_file import ServersFile, entry_of
from pegboard.config.masking import masked_entry
from pegboard.console.pages.board import costs_of, server_rows
from pegboard.console.request import PageRequest
from pegboard.errors import ConfigError, PegboardError
from pegboard.observe.server_log import LogLine
from pegboard.observe.server_log_reading import LogReader
from pegboard.reports.cost import ToolCost
from pegboard.upstream.connection import Negotiated

if TYPE_CHECKING:
    from pegboard.console.config_plans import ConfigPlans
    from pegboard.console.diagnoses import Diagnoses

__all__ = ["ACTIONS", "show"]

_LINES = 200
"""How many lines of the log a page has."""
ACTIONS = ("start", "stop", "restart", "disable", "enable", "diagnose")


async def show(page: PageRequest) -> Response:
    """Show a server; its log, its errors and its configuration are for operators."""
    page.need("read")
    name: str = page.request.path_params["name"]
    rows = await anyio.to_thread.run_sync(server_rows, page)
    row = next((it for it in rows if it.status.server == name), None)
    if row is None:
        raise HTTPException(404, "There is no server of this name that you may see.")
    if page.request.method == "POST":
        return await _acted(page, name)
    values: dict[str, Any] = {"server": None, "log": None, "entry": None, "diagnosis": None}
    if page.operates:
        diagnoses: Diagnoses = page.request.app.state.diagnoses
        values["server"] = page.tenant.hub.servers.get(name)
        values["log"] = await anyio.to_thread.run_sync(partial(_log_of, page, name))
        values["entry"] = await anyio.to_thread.run_sync(partial(_entry_of, page, name))
        values["diagnosis"] = diagnoses.of(page, name, row.status.last_error)
    said = _negotiated(page, name)
    return await page.show(
        "server.html",
        row=row,
        tools=await anyio.to_thread.run_sync(_tools_of, page, name),
        negotiated=said,
        can=_capabilities(said),
        **values,
    )


async def _acted(page: PageRequest, name: str) -> Response:
    form = await page.form()
    if not page.operates:
        raise HTTPException(403, "Only an operator may do this.")
    action = str(form.get("action", ""))
    if action not in ACTIONS:
        raise HTTPException(400, "There is no such action.")
    hub = page.tenant.hub
    if action in ("disable", "enable"):
        await _switch(page, name, on=action == "enable")
    elif action == "diagnose":
        diagnoses: Diagnoses = page.request.app.state.diagnoses
        await diagnoses.ask(page, name)
    else:
        server = hub.server(name)
        if action != "start":
            await server.stop()
        if action != "stop":
            try:
                await server.start()
            except PegboardError as error:
                # The page says it, unless the server was not even tried.
                if hub.servers[name].last_error is None:
                    raise HTTPException(400, server.config.redact(str(error))) from error
    page.note(f"servers.{action}", name)
    return RedirectResponse(page.request.url_for("server", name=name).path, 303)


async def _switch(page: PageRequest, name: str, *, on: bool) -> None:
    path = await anyio.to_thread.run_sync(page.sources.file_of, page.principal.tenant)
    if path is None:
        raise HTTPException(400, "The configuration of this gateway is not a file.")
    plans: ConfigPlans = page.request.app.state.plans
    session = page.session

    def switched() -> None:
        plans.apply(plans.switch(path, name, session, on=on).id, session)

    await anyio.to_thread.run_sync(switched)
    await page.tenant.hub.reload(wait=False)


def _negotiated(page: PageRequest, name: str) -> Negotiated | None:
    if name not in page.tenant.hub.servers:
        return None
    return page.tenant.hub.server(name).connection.negotiated


def _capabilities(said: Negotiated | None) -> list[tuple[str, str]]:
    """Return the capabilities and extensions of a server, each with its details as JSON."""
    if said is None:
        return []
    return [
        (name, "" if it in ({}, None) else msgspec.json.encode(it).decode()[:500])
        for name, it in sorted(said.capabilities.items())
    ]


def _entry_of(page: PageRequest, name: str) -> str | None:
    """Return the entry of a server without its secrets."""
    hub = page.tenant.hub
    config = hub.server(name).config if name in hub.servers else None
    try:
        path = hub.loaded.path
        raw = None if path is None else ServersFile(path).entries.get(name)
        if raw is not None:
            shown = masked_entry(raw.value)
        elif config is not None:
            shown = masked_entry(entry_of(config))
        else:
            return None
    except (ConfigError, OSError) as error:
        return str(error)
    return shown if config is None else config.redact(shown)


def _tools_of(page: PageRequest, name: str) -> list[ToolCost]:
    seen = {it.name for it in page.tenant.tools.seen(page.visibility) if it.server == name}
    return [it for it in costs_of(page).read() if it.name in seen]


def _log_of(page: PageRequest, name: str) -> list[LogLine] | None:
    folder = page.sources.log_of(page.principal.tenant)
    if folder is None:
        return None
    lines = [it for it in LogReader(folder, server=name).read() if not it.tenant]
    return lines[-_LINES:][::-1]
