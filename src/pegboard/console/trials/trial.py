"""Trial: call a tool from a form, through the same door as any client, and answer its questions."""

import json
import shlex
from collections.abc import Mapping
from functools import partial
from pprint import pformat
from time import perf_counter
from typing import Any, Literal, cast
from urllib.parse import unquote, urlsplit

import anyio.to_thread
import msgspec

from pegboard.console.client import Notified, asked
from pegboard.console.request import PageRequest
from pegboard.console.trials.result_media import ResultMedia
from pegboard.console.trials.result_view import ResultView, view_of
from pegboard.console.trials.schema_form import SchemaForm
from pegboard.gateway.builtin_tool import OWN_NAMES
from pegboard.gateway.request import RpcError
from pegboard.model import Tool
from pegboard.model.json_values import object_in

__all__ = ["AskedQuestion", "Trial", "arguments_in", "as_cli", "as_python", "form_of", "try_tool"]

Sent = Mapping[str, str]
_ANSWERS = ("accept", "decline", "cancel")
_MOST_QUESTIONS = 20


class AskedQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A question of a server to the person."""

    message: str
    form: SchemaForm | None = None
    url: str = ""
    """A page at which the person is asked, such as a login; only ``http`` and ``https``."""
    host: str = ""


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a call."""

    error: str = ""
    """Why there is no result."""
    view: ResultView | None = None
    questions: tuple[AskedQuestion, ...] = ()
    state: str = ""
    """What the answer sends back, so that the call goes on."""
    seconds: float | None = None
    arguments: Mapping[str, Any] | None = None
    """What was sent."""


def form_of(tool: Tool, sent: Sent | None, given: object = None) -> SchemaForm:
    """Return the form for the arguments of a tool, filled in with what was sent."""
    do, _, path = ("" if sent is None else sent.get("do", "")).partition(" ")
    add, remove = path if do == "add" else "", path if do == "remove" else ""
    return SchemaForm(tool.input_schema, sent=sent, given=given, add=add, remove=remove)


def arguments_in(form: SchemaForm, sent: Sent) -> dict[str, Any]:
    """Return the arguments in a form: those of its raw view, or of its fields.

    Raises:
        ValueError: when a field is not what it should be.
    """
    raw = sent.get("raw", "").strip()
    if raw:
        try:
            found: object = msgspec.json.decode(raw)
        except (msgspec.DecodeError, RecursionError) as error:
            raise ValueError(f"The arguments are not JSON: {error}") from error
    else:
        found = form.value()
        if form.problems:
            raise ValueError(_wrong(form))
    if not isinstance(found, dict):
        raise ValueError("The arguments are a JSON object, such as {}.")  # noqa: TRY004 - it was typed
    return cast("dict[str, Any]", found)


async def try_tool(
    page: PageRequest, tool: Tool, form: SchemaForm, sent: Sent, *, notified: Notified | None = None
) -> Trial:
    """Do what was sent: call a tool, answer its question, or read more of its result."""
    do = sent.get("do", "")
    if do == "read":
        return await _read(page, sent)
    if do in _ANSWERS:
        return await _answer(page, tool, sent, do, notified)
    try:
        arguments = await anyio.to_thread.run_sync(partial(arguments_in, form, sent))
    except ValueError as error:
        return Trial(error=str(error))
    return await _call(page, tool, {"arguments": arguments}, sent, notified)


def as_cli(name: str, arguments: Mapping[str, Any]) -> str:
    """Return the command that makes a call."""
    words = ["pegboard", "call", name]
    if arguments:
        # As ASCII: what a terminal does not show would be lost on the way.
        words += "--args", json.dumps(arguments)
    return shlex.join(words)


def as_python(name: str, arguments: Mapping[str, Any]) -> str:
    """Return the program that makes a call."""
    written = pformat(arguments, width=80, sort_dicts=False).replace("\n", "\n        ")
    return (
        "import asyncio\n\nfrom pegboard import Hub\n\n\n"
        "async def main() -> None:\n"
        f"    async with Hub.open() as hub:\n"
        f"        arguments = {written}\n"
        f"        result = await hub.call({name!r}, arguments)\n"
        "        print(result.text())\n\n\n"
        "asyncio.run(main())\n"
    )


async def _call(
    page: PageRequest,
    tool: Tool,
    params: Mapping[str, Any],
    sent: Sent,
    notified: Notified | None,
) -> Trial:
    # On the search address, a name of the gateway's own tools means those.
    is_whole = bool(sent.get("whole")) or tool.name in OWN_NAMES
    surface: Literal["full", "search"] = "full" if is_whole else "search"
    arguments = object_in(params["arguments"])
    began = perf_counter()
    try:
        result = await asked(
            page,
            "tools/call",
            {"name": tool.name, **params},
            surface=surface,
            notified=notified,
        )
    except RpcError as error:
        return Trial(error=error.message, seconds=perf_counter() - began, arguments=arguments)
    seconds = perf_counter() - began
    if result.get("resultType", "complete") != "input_required":
        view = await anyio.to_thread.run_sync(partial(view_of, result, _media(page)))
        return Trial(view=view, seconds=seconds, arguments=arguments)
    kept = {
        "arguments": arguments,
        "requestState": result.get("requestState"),
        "inputRequests": result.get("inputRequests"),
    }
    return await _asking(kept, seconds=seconds)


async def _asking(
    kept: Mapping[str, Any], *, sent: Sent | None = None, seconds: float | None = None
) -> Trial:
    requests = list(object_in(kept["inputRequests"]).values())[:_MOST_QUESTIONS]
    questions = await anyio.to_thread.run_sync(
        lambda: tuple(_question(at, it, sent) for at, it in enumerate(requests))
    )
    # As ASCII on one line, which every browser sends back as it is.
    state = json.dumps(kept)
    words = "" if questions else "The server waits for something without a question."
    return Trial(
        error=words,
        questions=questions,
        state=state,
        seconds=seconds,
        arguments=object_in(kept["arguments"]),
    )


def _question(at: int, asked_for: object, sent: Sent | None) -> AskedQuestion:
    params = object_in(object_in(asked_for).get("params"))
    message = str(params.get("message", ""))[:10_000]
    address: object = params.get("url")
    if isinstance(address, str):
        try:
            parts = urlsplit(address)
        except ValueError:
            return AskedQuestion(message=message)
        is_web = parts.scheme in ("http", "https")
        url = address if is_web else ""
        return AskedQuestion(message=message, url=url, host=parts.netloc if is_web else "")
    schema = object_in(params.get("requestedSchema"))
    return AskedQuestion(message=message, form=SchemaForm(schema, root=f"q{at}", sent=sent))


async def _answer(
    page: PageRequest, tool: Tool, sent: Sent, action: str, notified: Notified | None
) -> Trial:
    try:
        kept = object_in(json.loads(sent.get("state", "")))
        requests = object_in(kept["inputRequests"])
        params = {"arguments": object_in(kept["arguments"]), "requestState": kept["requestState"]}
    except (ValueError, KeyError, RecursionError):
        return Trial(error="This answer is not complete. Call the tool again.")
    trial = await _asking(kept, sent=sent)
    responses: dict[str, Any] = {}
    for key, question in zip(requests, trial.questions, strict=False):
        response: dict[str, Any] = {"action": action}
        if action == "accept" and question.form is not None:
            response["content"] = question.form.value()
            if question.form.problems:
                return msgspec.structs.replace(trial, error=_wrong(question.form))
        responses[key] = response
    params["inputResponses"] = responses
    if params["requestState"] is None:
        del params["requestState"]
    return await _call(page, tool, params, sent, notified)


def _wrong(form: SchemaForm) -> str:
    named = ((unquote(path).partition("/")[2], it) for path, it in form.problems.items())
    return " ".join(f"{name or 'The value'}: {it}" for name, it in named)


async def _read(page: PageRequest, sent: Sent) -> Trial:
    handle = sent.get("handle", "")[:100]
    wanted: dict[str, Any] = {"handle": handle}
    offset = sent.get("offset", "")
    if offset.isascii() and offset.isdecimal() and len(offset) < 13:
        wanted["offset"] = int(offset)
    wanted |= {name: sent[name] for name in ("path", "grep") if sent.get(name)}
    began = perf_counter()
    params = {"name": "read_result", "arguments": wanted}
    try:
        result = await asked(page, "tools/call", params, surface="search")
    except RpcError as error:
        return Trial(error=error.message, seconds=perf_counter() - began)
    view = await anyio.to_thread.run_sync(partial(view_of, result, _media(page), handle=handle))
    return Trial(view=view, seconds=perf_counter() - began)


def _media(page: PageRequest) -> ResultMedia:
    return page.request.app.state.media
