"""Tools: the list of all tools, and one tool with its definition, what it costs and a trial."""

from functools import partial
from typing import TYPE_CHECKING, Any

import anyio.to_thread
import msgspec
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from pegboard.console.pages.board import costs_of
from pegboard.console.request import PageRequest
from pegboard.console.trial import Trial, arguments_in, fields_of, try_tool
from pegboard.errors import ToolNotFoundError
from pegboard.gateway.tool_lines import signature
from pegboard.model import Tool
from pegboard.reports.cost import estimated

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pegboard.search.options import SearchOptions

__all__ = ["find", "show", "show_one"]

_PAGE = 100
_FOUND = 8
_LONGEST_QUERY = 500


async def show(page: PageRequest) -> Response:
    """Show the tools that a person may see, a page at a time."""
    page.need("read")
    found = await anyio.to_thread.run_sync(partial(_chosen, page))
    first = max(0, _number(page.asked("from")))
    servers = sorted({it.server or "" for it in page.tenant.tools.seen(page.visibility)})
    costs = {it.name: it.tokens for it in await anyio.to_thread.run_sync(costs_of(page).read)}
    return await page.show(
        "tools.html",
        tools=found[first : first + _PAGE],
        costs=costs,
        servers=servers,
        chosen={name: page.asked(name) for name in ("server", "name", "sort")},
        first=first,
        size=_PAGE,
        total=len(found),
    )


async def show_one(page: PageRequest) -> Response:
    """Show a tool; a form that was sent is a call."""
    page.need("read")
    try:
        tool = page.tenant.tools.find(page.request.path_params["name"], page.visibility)
    except ToolNotFoundError as error:
        raise HTTPException(404, str(error)) from error
    trial = None
    form: FormData | None = None
    if page.request.method == "POST":
        form = await page.form()
        page.need("call")
        trial = await _tried(page, tool, form)
    definition = page.tenant.tools.definition(tool)
    return await page.show(
        "tool.html",
        tool=tool,
        definition=_pretty(definition),
        line=signature(tool),
        tokens=estimated(definition),
        line_tokens=estimated(signature(tool)),
        fields=fields_of(tool.input_schema, form),
        runs=page.tenant.hub.registry.runs(tool.name),
        raw=str(form.get("raw", "")) if form is not None else "",
        trial=trial,
    )


async def find(page: PageRequest) -> Response:
    """Return the servers and tools whose names contain a text, for the palette."""
    page.need("read")
    text = page.asked("q")[:_LONGEST_QUERY].strip()
    servers = [
        {"kind": "server", "name": it, "url": str(page.request.url_for("server", name=it).path)}
        for it in page.tenant.hub.servers
        if text.casefold() in it.casefold() and page.visibility.knows_server(it)
    ]
    tools: Sequence[Tool] = ()
    if text:
        options: SearchOptions = {"limit": _FOUND}
        where = page.visibility.for_models().sees
        response = await page.tenant.hub.search(text, where=where, **options)
        tools = [it.tool for it in response.hits]
    told = [
        {"kind": "tool", "name": it.name, "url": page.request.url_for("tool", name=it.name).path}
        for it in tools
    ]
    return JSONResponse([*servers[:_FOUND], *told])


async def _tried(page: PageRequest, tool: Tool, form: FormData) -> Trial:
    try:
        arguments: Mapping[str, Any] = arguments_in(tool.input_schema, form)
    except ValueError as error:
        return Trial(error=str(error))
    return await try_tool(page, tool.name, arguments)


def _chosen(page: PageRequest) -> list[Tool]:
    server, name, sort = page.asked("server"), page.asked("name").casefold(), page.asked("sort")
    wanted = [
        it
        for it in page.tenant.tools.seen(page.visibility)
        if (not page.asked("server") or (it.server or "") == server)
        and (not name or name in it.name.casefold())
    ]
    if sort == "tokens":
        costs = {it.name: it.tokens for it in costs_of(page).read()}
        wanted.sort(key=lambda it: -costs.get(it.name, 0))
    return wanted


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 9 else 0


def _pretty(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
