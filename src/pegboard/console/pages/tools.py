"""Tools: the list of all tools, and one tool with its definition, what it costs and a trial."""

from functools import partial
from typing import TYPE_CHECKING, Any

import anyio.to_thread
import msgspec
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from pegboard.console.client import Notified
from pegboard.console.pages.board import costs_of
from pegboard.console.rendering import url_of
from pegboard.console.request import PageRequest
from pegboard.console.trials.model_views import ModelView, model_views
from pegboard.console.trials.schema_form import FormField, SchemaForm
from pegboard.console.trials.trial import (
    Trial,
    arguments_in,
    as_cli,
    as_python,
    form_of,
    try_tool,
)
from pegboard.console.trials.trial_stream import TrialStream
from pegboard.errors import ToolNotFoundError
from pegboard.model import Tool

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pegboard.search.options import SearchOptions

__all__ = ["find", "show", "show_one"]

_PAGE = 100
_FOUND = 8
_LONGEST_QUERY = 500
_MOST_TEXT = 200_000
_EDITS = ("add", "remove", "form", "json")
"""What the form does without a call."""


class _Explored(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the list of tools."""

    tools: "Sequence[Tool]"
    costs: "Mapping[str, int]"
    servers: "Sequence[str]"
    total: int


class _Shown(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of the page of a tool that take a while to make."""

    form: SchemaForm
    fields: FormField
    raw: str
    arguments: "Mapping[str, Any]"
    problem: str
    definition: str
    views: "Sequence[ModelView]"


async def show(page: PageRequest) -> Response:
    """Show the tools that a person may see, a page at a time."""
    page.need("read")
    first = max(0, _number(page.asked("from")))
    found = await anyio.to_thread.run_sync(partial(_explored, page, first))
    return await page.show(
        "tools.html",
        tools=found.tools,
        costs=found.costs,
        servers=found.servers,
        chosen={name: page.asked(name) for name in ("server", "name", "sort")},
        first=first,
        size=_PAGE,
        total=found.total,
    )


async def show_one(page: PageRequest) -> Response:
    """Show a tool; a form that was sent is a call, or an edit of the form."""
    page.need("read")
    try:
        tool = page.tenant.tools.find(page.request.path_params["name"], page.visibility)
    except ToolNotFoundError as error:
        raise HTTPException(404, str(error)) from error
    sent: dict[str, str] | None = None
    trial: Trial | None = None
    if page.request.method == "POST":
        form = await page.form()
        sent = {key: it for key, it in form.items() if isinstance(it, str)}
        if sent.get("do", "").partition(" ")[0] not in _EDITS:
            page.need("call")
            if "text/event-stream" in page.request.headers.get("accept", ""):
                return TrialStream(partial(_result, page, tool, sent))
            trial = await _tried(page, tool, sent)
        async with page.turn():
            return await _shown_with(page, tool, sent, trial)
    return await _shown_with(page, tool, None, None)


async def _shown_with(
    page: PageRequest, tool: Tool, sent: dict[str, str] | None, trial: Trial | None
) -> Response:
    shown = await anyio.to_thread.run_sync(partial(_shown, page, tool, sent))
    return await page.show(
        "tool.html",
        tool=tool,
        shown=shown,
        runs=page.tenant.hub.registry.runs(tool.name),
        whole=sent is not None and bool(sent.get("whole")),
        **await anyio.to_thread.run_sync(_of_trial, tool, trial),
    )


async def find(page: PageRequest) -> Response:
    """Return the servers and tools whose names contain a text, for the palette."""
    page.need("read")
    text = page.asked("q")[:_LONGEST_QUERY].strip()
    servers = [
        {"kind": "server", "name": it, "url": url_of("server", it)}
        for it in page.tenant.hub.servers
        if text.casefold() in it.casefold() and page.visibility.knows_server(it)
    ]
    tools: Sequence[Tool] = ()
    if text:
        options: SearchOptions = {"limit": _FOUND}
        where = page.visibility.for_models().sees
        response = await page.tenant.hub.search(text, where=where, **options)
        tools = [it.tool for it in response.hits]
    told = [{"kind": "tool", "name": it.name, "url": url_of("tool", it.name)} for it in tools]
    return JSONResponse([*servers[:_FOUND], *told])


async def _tried(
    page: PageRequest, tool: Tool, sent: "Mapping[str, str]", notified: Notified | None = None
) -> Trial:
    form = await anyio.to_thread.run_sync(partial(form_of, tool, sent))
    return await try_tool(page, tool, form, sent, notified=notified)


async def _result(
    page: PageRequest, tool: Tool, sent: "Mapping[str, str]", notified: Notified
) -> bytes:
    trial = await _tried(page, tool, sent, notified)
    async with page.turn():
        values = await anyio.to_thread.run_sync(_of_trial, tool, trial)
        return await page.render(
            "tool_result.html", tool=tool, whole=bool(sent.get("whole")), **values
        )


def _of_trial(tool: Tool, trial: Trial | None) -> dict[str, Any]:
    if trial is None or trial.arguments is None:
        return {"trial": trial, "cli": "", "python": "", "sent": ""}
    sent = _pretty(trial.arguments)
    if len(sent) > _MOST_TEXT:
        return {"trial": trial, "cli": "", "python": "", "sent": f"{sent[:_MOST_TEXT]}…"}
    return {
        "trial": trial,
        "cli": as_cli(tool.name, trial.arguments),
        "python": as_python(tool.name, trial.arguments),
        "sent": sent,
    }


def _shown(page: PageRequest, tool: Tool, sent: "Mapping[str, str] | None") -> _Shown:
    raw, given, problem = "", None, ""
    if sent is None:
        raw = page.asked("args")
    elif "f" in sent or "raw" in sent:
        raw = sent.get("raw", "")
    else:
        # An answer or a page of a result: the form begins again.
        sent = None
    if raw and (sent is None or sent.get("do") == "form"):
        try:
            given = msgspec.json.decode(raw, type=dict[str, Any])
            sent, raw = None, ""
        except (msgspec.DecodeError, RecursionError) as error:
            problem = f"The arguments are not a JSON object: {error}"
    form = form_of(tool, sent, given)
    fields = form.root
    arguments: Mapping[str, Any] = {}
    try:
        arguments = arguments_in(form, sent or {})
    except ValueError as error:
        problem = problem or (str(error) if sent is not None else "")
    if sent is not None and sent.get("do") == "json" and not problem:
        raw = _pretty(arguments)
    definition = _pretty(page.tenant.tools.definition(tool))
    if len(definition) > _MOST_TEXT:
        definition = f"{definition[:_MOST_TEXT]}\n… ({len(definition) - _MOST_TEXT:,} more)"
    return _Shown(
        form=form,
        fields=fields,
        raw=raw,
        arguments=arguments,
        problem=problem,
        definition=definition,
        views=model_views(page, tool),
    )


def _explored(page: PageRequest, first: int) -> _Explored:
    server, name, sort = page.asked("server"), page.asked("name").casefold(), page.asked("sort")
    costs = costs_of(page)
    seen = list(page.tenant.tools.seen(page.visibility))
    wanted = [
        it
        for it in seen
        if (not server or it.server == server) and (not name or name in it.name.casefold())
    ]
    if sort == "tokens":
        counted = {it.name: it.tokens for it in costs.read()}
        wanted.sort(key=lambda it: -counted.get(it.name, 0))
    tools = wanted[first : first + _PAGE]
    return _Explored(
        tools=tools,
        costs={it.name: costs.of(it).tokens for it in tools},
        servers=sorted({it.server for it in seen if it.server}),
        total=len(wanted),
    )


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 9 else 0


def _pretty(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
