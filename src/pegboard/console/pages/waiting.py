"""Waiting: questions of servers that wait for a person, answered in place, and running calls."""

from collections.abc import Mapping
from time import perf_counter
from typing import Any
from urllib.parse import quote

import anyio.to_thread
import msgspec
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from pegboard.console.request import PageRequest
from pegboard.console.trials.schema_form import SchemaForm
from pegboard.gateway.calls.suspended_calls import OpenQuestion
from pegboard.model.json_values import object_in

__all__ = ["RunningRow", "running_rows", "show"]

_MOST_SHOWN = 100
_ELICITATION = "elicitation/create"


class QuestionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A question with the form that answers it."""

    question: OpenQuestion
    message: str
    form: SchemaForm | None = None
    url: str = ""
    """The web page that the server wants the person to open."""
    is_form: bool = False
    """Whether a person can answer it here."""
    error: str = ""


class RunningRow(msgspec.Struct, frozen=True, kw_only=True):
    """A call whose request runs."""

    tool: str
    caller: str
    client: str
    seconds: float
    connecting: float
    waiting: float


async def show(page: PageRequest) -> Response:
    """Show the questions that a person may answer: its own, or all for operators."""
    page.need("call")
    wrong: dict[tuple[str, str], str] = {}
    if page.request.method == "POST":
        form = await page.form()
        question = _named(page, str(form.get("id", "")), str(form.get("key", "")))
        try:
            response = await anyio.to_thread.run_sync(_response, question, form)
        except ValueError as error:
            wrong[question.id, question.key] = str(error)
        else:
            if not page.sources.gateway.answer(question, response):
                raise HTTPException(404, "This question is not open any more.")
            return RedirectResponse("/console/waiting", 303)
    questions = _questions(page)
    return await page.show(
        "waiting.html",
        # The forms are of the schemas of servers, which may be large.
        rows=await anyio.to_thread.run_sync(
            lambda: [_row(it, wrong.get((it.id, it.key), "")) for it in questions[:_MOST_SHOWN]]
        ),
        total=len(questions),
        running=running_rows(page),
    )


def running_rows(page: PageRequest) -> list[RunningRow]:
    """Return the calls that run now and that a person may see, the oldest first."""
    now, principal = perf_counter(), page.principal
    own = principal.tenant, principal.subject
    return [
        RunningRow(
            tool=call.tool,
            caller=str(call.caller.get("subject", "")),
            client=str(call.caller.get("client", "")),
            seconds=now - call.began,
            connecting=call.connecting,
            waiting=call.waiting,
        )
        for call in page.sources.running()
        if page.operates or (call.caller.get("tenant"), call.caller.get("subject")) == own
    ][:_MOST_SHOWN]


def _questions(page: PageRequest) -> list[OpenQuestion]:
    principal = page.principal
    own = principal.tenant, principal.subject
    found = page.sources.gateway.questions()
    return [it for it in found if page.operates or (it.tenant, it.subject) == own]


def _named(page: PageRequest, call: str, key: str) -> OpenQuestion:
    for it in _questions(page):
        if (it.id, it.key) == (call, key):
            return it
    raise HTTPException(404, "This question is not open any more.")


def _row(question: OpenQuestion, error: str) -> QuestionRow:
    params = question.params
    message: object = params.get("message")
    url: object = params.get("url")
    is_elicitation = question.method == _ELICITATION
    link = url if is_elicitation and isinstance(url, str) else ""
    schema = object_in(params.get("requestedSchema"))
    return QuestionRow(
        question=question,
        message=message if isinstance(message, str) else question.method,
        form=SchemaForm(schema, root=_form_name(question)) if is_elicitation and not link else None,
        url=link if link.startswith("https://") else "",
        is_form=is_elicitation,
        error=error,
    )


def _form_name(question: OpenQuestion) -> str:
    return quote(f"{question.id}.{question.key}", safe="")


def _response(question: OpenQuestion, form: FormData) -> Mapping[str, Any]:
    """Return the answer in a form, as MCP has it.

    Raises:
        ValueError: when a field is not what it should be.
    """
    if question.method != _ELICITATION:
        raise ValueError("A person cannot answer this question here.")
    action = str(form.get("action", ""))
    if action != "accept":
        return {"action": "decline" if action == "decline" else "cancel"}
    if "url" in question.params:
        return {"action": "accept"}
    schema = object_in(question.params.get("requestedSchema"))
    sent = {key: it for key, it in form.items() if isinstance(it, str)}
    answer = SchemaForm(schema, root=_form_name(question), sent=sent)
    content = object_in(answer.value())
    for path, words in answer.problems.items():
        raise ValueError(f"`{path.rpartition('/')[2]}`: {words}")
    fields = answer.root.fields
    missing = [it.label for it in fields if it.required and it.label not in content]
    if missing:
        raise ValueError(f"`{missing[0]}` is required.")
    return {"action": "accept", "content": content}
