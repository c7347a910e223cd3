"""Server: one server with its tools, its log, and what was negotiated with it."""

from functools import partial

import anyio.to_thread
from starlette.exceptions import HTTPException
from starlette.responses import Response

from pegboard.console.pages.board import costs_of, server_rows
from pegboard.console.request import PageRequest
from pegboard.observe.server_log import LogLine
from pegboard.observe.server_log_reading import LogReader
from pegboard.reports.cost import ToolCost

__all__ = ["show"]

_LINES = 200
"""How many lines of the log a page has."""


async def show(page: PageRequest) -> Response:
    """Show a server; its log and its errors are for operators."""
    page.need("read")
    name: str = page.request.path_params["name"]
    rows = await anyio.to_thread.run_sync(server_rows, page)
    row = next((it for it in rows if it.status.server == name), None)
    if row is None:
        raise HTTPException(404, "There is no server of this name that you may see.")
    status = page.tenant.hub.servers.get(name) if page.operates else None
    log = await anyio.to_thread.run_sync(partial(_log_of, page, name)) if page.operates else None
    return await page.show(
        "server.html", row=row, server=status, log=log, tools=_tools_of(page, name)
    )


def _tools_of(page: PageRequest, name: str) -> list[ToolCost]:
    seen = {it.name for it in page.tenant.tools.seen(page.visibility) if it.server == name}
    return [it for it in costs_of(page).read() if it.name in seen]


def _log_of(page: PageRequest, name: str) -> list[LogLine] | None:
    folder = page.sources.log_of(page.principal.tenant)
    if folder is None:
        return None
    lines = [it for it in LogReader(folder, server=name).read() if not it.tenant]
    return lines[-_LINES:][::-1]
