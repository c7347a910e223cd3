"""Calling a tool: its server is started for it, or the gateway that runs is asked."""

import logging
import math
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import msgspec

from pegboard.cli.catalogue import Origin
from pegboard.cli.progress_line import ProgressLine
from pegboard.cli.questions import AtTheTerminal
from pegboard.cli.warming import within
from pegboard.errors import PegboardError, ToolTimeoutError
from pegboard.hub import Hub
from pegboard.model import ToolResult
from pegboard.model.tool_names import mcp
from pegboard.observe import History
from pegboard.registry import Registry
from pegboard.upstream import NoMemory

if TYPE_CHECKING:
    from pegboard.hub.options import HubOptions

__all__ = ["call_tool"]


async def call_tool(
    name: str,
    arguments: Mapping[str, Any],
    *,
    origin: Origin,
    store: str | None,
    timeout: float | None,  # noqa: ASYNC109 - the server's own limit is set to it
) -> ToolResult:
    """Call a tool and return what it answered.

    Args:
        name: as it is shown here.
        arguments: what it takes.
        origin: where it is.
        store: where its use is counted; ``None`` for nowhere.
        timeout: how many seconds it may take, with the start of its server; if left out, as long
            as is configured.

    Raises:
        PegboardError: when it did not answer.
    """
    # What goes wrong is said once, by the command.
    logging.getLogger("pegboard").addHandler(logging.NullHandler())
    line = ProgressLine(f"Calling {name}")
    person = AtTheTerminal(line.clear)
    options: HubOptions = {
        "naming": lambda server, tool: name if tool == origin.name else mcp(server, tool),
        # What is known of its other tools stays as it is.
        "memory": NoMemory(),
        "storage": store,
        "elicitation": person.elicitation,
        "sampling": person.sampling,
    }
    config = msgspec.structs.replace(origin.server, prefix=None)
    if timeout is not None:
        limits = msgspec.structs.replace(within(config, timeout).timeouts, call=timeout)
        config = msgspec.structs.replace(config, timeouts=limits)
    end = math.inf if timeout is None else anyio.current_time() + timeout
    try:
        async with Hub([config], **options) as hub, _counted(hub.registry):
            try:
                with anyio.fail_after(None if timeout is None else end - anyio.current_time()):
                    return await hub.call(name, arguments, on_progress=line.tell)
            except (PegboardError, TimeoutError) as error:
                is_over = anyio.current_time() >= end
                if timeout is None or isinstance(error, ToolTimeoutError) or not is_over:
                    raise
                # Whatever it says, such as that the server is not there: it had no more time.
                words = "give `--timeout` more"
                raise ToolTimeoutError(name, seconds=timeout, remedy=words) from error
    finally:
        line.clear()


@asynccontextmanager
async def _counted(registry: Registry) -> AsyncGenerator[None]:
    """Keep in the store how the calls ended, as a gateway does in its audit."""
    if registry.storage is None:
        yield
        return
    history = History(registry.storage)
    registry.observe(history)
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(history.close)
