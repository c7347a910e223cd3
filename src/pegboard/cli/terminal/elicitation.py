"""Elicitation at the terminal: the user answers what a server asks during a call."""

import sys
from collections.abc import Callable, Mapping
from typing import Any

from pegboard.cli.terminal.output import warn
from pegboard.cli.terminal.prompts import fill_in, read_line
from pegboard.model.json_values import object_in
from pegboard.upstream import QuestionRefusedError

__all__ = ["AtTheTerminal"]

_REFUSED = -1
"""The error code of the protocol for a user who rejects a sampling request."""
_NO_MODEL = "There is no model here: the tool was called from a command line."


class AtTheTerminal:
    """Lets the user at the terminal answer what servers ask.

    Args:
        before: called before each question, to clear the progress line.
    """

    def __init__(self, before: Callable[[], object]) -> None:
        self._before = before

    async def elicitation(self, server: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Let the user answer an elicitation; decline it if there is no terminal."""
        self._before()
        warn(f"Server {server!r} asks: {params.get('message', '')}")
        if not sys.stdin.isatty():
            warn("There is no terminal to ask on; the question is declined.")
            return {"action": "decline"}
        try:
            if params.get("mode") == "url" or "url" in params:
                return await _visit(str(params.get("url", "")))
            return await _fill_form(object_in(params.get("requestedSchema")))
        except EOFError:
            return {"action": "cancel"}

    async def sampling(self, server: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Refuse a sampling request: there is no model."""
        self._before()
        warn(f"Server {server!r} asks for an answer from a model. {_NO_MODEL}")
        raise QuestionRefusedError(_REFUSED, _NO_MODEL)


async def _visit(url: str) -> Mapping[str, Any]:
    warn(f"It asks you to open this page:\n  {url}")
    done = await read_line("Press Enter when you have done so; n declines: ")
    return {"action": "decline" if _is_no(done) else "accept"}


async def _fill_form(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    properties = object_in(schema.get("properties"))
    if not properties:
        return {"action": "decline" if _is_no(await read_line("Agree? [Y/n] ")) else "accept"}
    if _is_no(await read_line("Answer? [Y/n] ")):
        return {"action": "decline"}
    required: Any = schema.get("required") or ()
    return {"action": "accept", "content": await fill_in(properties, schema, required=required)}


def _is_no(text: str) -> bool:
    return text.strip().casefold() in ("n", "no")
