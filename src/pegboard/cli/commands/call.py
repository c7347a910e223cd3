"""`pegboard call`: call a tool."""

import re
import sys
import time
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from pegboard.cli.catalogue import tool_options as option
from pegboard.cli.catalogue.catalogue import Catalogue, Places, find_tool, open_catalogue
from pegboard.cli.exit_codes import FAILED
from pegboard.cli.terminal.arguments import STDIN, arguments_of, missing_in
from pegboard.cli.terminal.output import complain, warn, write_json
from pegboard.errors import (
    InvalidArgumentsError,
    NotImplementedToolError,
    ServerUnavailableError,
    ToolNotFoundError,
    ToolTimeoutError,
    UpstreamError,
)
from pegboard.gateway.tool_lines import signature, unknown_arguments
from pegboard.model import ArgumentSchema, Tool, ToolResult
from pegboard.model.json_values import object_in
from pegboard.storage import default_url

__all__ = ["add_to"]


def add_to(root: typer.Typer) -> None:
    """Add the command to an application."""
    root.command("call")(call)


def call(
    tool: Annotated[
        str,
        typer.Argument(metavar="TOOL", help="Name of the tool, as `tools` and `search` print it."),
    ],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ARGUMENT",
            help="KEY=VALUE, converted as the tool's schema says; KEY:=JSON; KEY=@FILE; or `-` to "
            "read a JSON object from standard input.",
        ),
    ] = None,
    *,
    args: Annotated[
        str | None, typer.Option("--args", metavar="OBJECT", help="Arguments as a JSON object.")
    ] = None,
    structured: Annotated[
        bool, typer.Option("--structured", help="Print the structured content as JSON.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the whole result as JSON.")] = False,
    save_to: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for images and other files.")
    ] = Path(),
    timeout: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            min=0.001,
            max=1e8,
            help="Limit for the call, including the start of its server.",
        ),
    ] = None,
    config: option.Config = None,
    store: option.StoreUrl = None,
    alone: option.Alone = False,
    refresh: option.Refresh = False,
) -> None:
    """Call a tool through the running gateway, or start its server for the call."""
    words = arguments or []
    began = time.monotonic()
    places = Places(
        config=config,
        store=store,
        alone=alone,
        refresh=refresh,
        patience=timeout,
        wanted=tool,
    )
    with open_catalogue(places) as catalogue:
        try:
            found = find_tool(catalogue, tool)
        except (ToolNotFoundError, ServerUnavailableError) as error:
            catalogue.note_refused(tool, error.code)
            raise
        given = _arguments(found, words, args)
        left = None if timeout is None else _left(timeout, time.monotonic() - began)
        result = _result(catalogue, found, given, places=places, timeout=left)
    from pegboard.cli.catalogue.calling import result_as_json, show_result  # noqa: PLC0415 - now there is one

    if json:
        write_json(result_as_json(result))
    elif result.is_error:
        complain(result.text() or "The tool reported a failure without a message.")
    elif structured:
        write_json(result.structured_content)
    else:
        show_result(result, tool=found.name, folder=save_to)
    if result.is_error:
        raise typer.Exit(FAILED)


def _left(timeout: float, used: float) -> float:
    """Return what is left of a limit, since servers were started for the list of tools already."""
    return min(timeout, max(round(timeout - used, 1), 0.1))


def _arguments(tool: Tool, words: list[str], args: str | None) -> Mapping[str, Any]:
    """Return what was typed, and asked for where something was missing, as the tool takes it."""
    try:
        given = arguments_of(words, tool.input_schema, args=args)
        if sys.stdin.isatty() and STDIN not in words:
            given |= _asked_for(tool, missing_in(given, tool.input_schema))
        checked = ArgumentSchema(tool.input_schema, tool=tool.name).check(given, tool=tool.name)
    except (typer.BadParameter, InvalidArgumentsError) as error:
        problem = error.message if isinstance(error, typer.BadParameter) else str(error)
        names = dict.fromkeys(re.split("[:.=]", it, maxsplit=1)[0] for it in words if "=" in it)
        unknown = _unknown(tool, (it for it in names if f"`{it}`" not in problem))
        problem = f"{problem.rstrip('.')}; {unknown}." if unknown else problem
        raise typer.BadParameter(f"{problem}\nThe signature is: {signature(tool)}") from error
    if unknown := _unknown(tool, unknown_arguments(tool, given)):
        warn(f"{tool.name} is called, although {unknown}.")
    return checked


def _unknown(tool: Tool, names: Iterable[str]) -> str:
    """Return the arguments that a tool does not know: most likely they have a wrong name."""
    known = object_in(tool.input_schema.get("properties"))
    strange = [f"`{it}`" for it in names if it not in known]
    return f"it has no argument {', '.join(strange)}" if strange else ""


def _asked_for(tool: Tool, names: list[str]) -> dict[str, Any]:
    if not names:
        return {}
    import anyio  # noqa: PLC0415 - only to ask

    from pegboard.cli.terminal.prompts import fill_in  # noqa: PLC0415 - the same

    warn(signature(tool))
    try:
        return anyio.run(fill_in, names, tool.input_schema)
    except EOFError:
        raise typer.Abort from None


def _result(
    catalogue: Catalogue,
    tool: Tool,
    given: Mapping[str, Any],
    *,
    places: Places,
    timeout: float | None,
) -> ToolResult:
    origin = catalogue.origin(tool)
    if origin is None:
        raise NotImplementedToolError(tool.name)
    import anyio  # noqa: PLC0415 - only now a server is needed

    from pegboard.cli.catalogue.calling import call_tool  # noqa: PLC0415 - a second to import

    # A gateway counts by itself.
    store = None if origin.is_gateway else places.store or default_url()
    work = partial(call_tool, origin=origin, store=store, timeout=timeout)
    try:
        return anyio.run(work, tool.name, given)
    except ToolTimeoutError as error:
        if places.patience is None or error.seconds != timeout:
            raise
        # The error names the limit that was typed, not what was left of it.
        words = "give `--timeout` more"
        raise ToolTimeoutError(tool.name, seconds=places.patience, remedy=words) from error
    except UpstreamError as error:
        if origin.is_gateway:
            error.args = (_of_gateway(str(error), origin.server.name),)
        raise


def _of_gateway(words: str, name: str) -> str:
    """Return what is said of a server, of the gateway: no server of the user's has this name."""
    named = repr(name)
    return words.replace(f"Server {named}", "The gateway").replace(f"server {named}", "the gateway")
