"""Questions that servers ask in mid-call, and who answers them."""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

import anyio.to_thread
import msgspec

from pegboard.upstream.nursery import Nursery

__all__ = ["Answer", "Question", "Questions", "ask"]

Answer: TypeAlias = Mapping[str, Any] | None
"""The result as the protocol has it; ``None`` declines."""

Question: TypeAlias = Callable[[str, Mapping[str, Any]], Awaitable[Answer] | Answer]
"""Answers what a server asks in mid-call: its name and the parameters in, the result out, both as
the protocol has them. A plain function is called in a thread, so that it may wait for a person."""


class Questions(msgspec.Struct, frozen=True, kw_only=True):
    """Who answers the questions of servers; a server is told which kinds it may ask."""

    elicitation: Question | None = None
    sampling: Question | None = None
    roots: Question | None = None

    def asked_as_guests_of(self, nursery: Nursery) -> "Questions":
        """Return the same, answered in tasks that neither wait for the nursery's, nor they for."""
        return Questions(
            elicitation=_as_guest(self.elicitation, nursery),
            sampling=_as_guest(self.sampling, nursery),
            roots=_as_guest(self.roots, nursery),
        )


async def ask(question: Question, server: str, params: Mapping[str, Any]) -> Answer:
    """Return the answer to a question, whichever kind of function gives it."""
    if _is_asynchronous(question):
        answer = question(server, params)
    else:
        work = partial(question, server, params)
        answer = await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
    return await answer if isinstance(answer, Awaitable) else answer


def _as_guest(question: Question | None, nursery: Nursery) -> Question | None:
    if question is None:
        return None

    async def as_guest(server: str, params: Mapping[str, Any]) -> Answer:
        return await nursery.as_guest(lambda: ask(question, server, params))

    return as_guest


def _is_asynchronous(question: Question) -> bool:
    return inspect.iscoroutinefunction(question) or inspect.iscoroutinefunction(
        getattr(question, "__call__", None)  # noqa: B004 - of an object, the method itself is wanted
    )
