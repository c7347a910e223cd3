"""Call a tool, print the text of its result, and save images and other files."""

import base64
import binascii
import logging
import math
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import msgspec

from pegboard.cli.catalogue.catalogue import Origin
from pegboard.cli.catalogue.prefetch import within
from pegboard.cli.terminal.elicitation import AtTheTerminal
from pegboard.cli.terminal.output import say, warn, write_json
from pegboard.cli.terminal.spinner import ProgressLine
from pegboard.errors import ConfigError, PegboardError, ToolTimeoutError
from pegboard.hub import Hub
from pegboard.model import Audio, Content, EmbeddedResource, Image, ToolResult
from pegboard.model.tool_names import mcp
from pegboard.observe.call_files import CallFiles
from pegboard.registry import Registry
from pegboard.storage.open_store import calls_place
from pegboard.upstream import NoCatalogCache

if TYPE_CHECKING:
    from pegboard.hub.options import HubOptions

__all__ = ["call_tool", "result_as_json", "show_result"]


async def call_tool(
    name: str,
    arguments: Mapping[str, Any],
    *,
    origin: Origin,
    store: str | None,
    timeout: float | None,  # noqa: ASYNC109 - the server's own limit is set to it
) -> ToolResult:
    """Call a tool and return its result.

    Args:
        name: the name under which it is listed.
        arguments: its arguments.
        origin: the server that has it.
        store: where its use is counted; ``None`` for nowhere.
        timeout: how many seconds it may take, including the start of its server; ``None`` for
            the configured limits.

    Raises:
        PegboardError: when the call did not finish.
    """
    # The command itself reports each failure once.
    logging.getLogger("pegboard").addHandler(logging.NullHandler())
    line = ProgressLine(f"Calling {name}")
    person = AtTheTerminal(line.clear)
    options: HubOptions = {
        "naming": lambda server, tool: name if tool == origin.name else mcp(server, tool),
        # The cache of its other tools stays as it is.
        "catalog_cache": NoCatalogCache(),
        "storage": store,
        "elicitation": person.elicitation,
        "sampling": person.sampling,
    }
    config = msgspec.structs.replace(origin.server, prefix=None, naming=None)
    if timeout is not None:
        limits = msgspec.structs.replace(within(config, timeout).timeouts, call=timeout)
        config = msgspec.structs.replace(config, timeouts=limits)
    end = math.inf if timeout is None else anyio.current_time() + timeout
    try:
        async with Hub([config], **options) as hub, _counted(hub.registry, store):
            try:
                with anyio.fail_after(None if timeout is None else end - anyio.current_time()):
                    return await hub.call(name, arguments, on_progress=line.tell)
            except (PegboardError, TimeoutError) as error:
                is_over = anyio.current_time() >= end
                if timeout is None or isinstance(error, ToolTimeoutError) or not is_over:
                    raise
                # Whatever the error says, such as that the server is down: the time was up.
                words = "give `--timeout` more"
                raise ToolTimeoutError(name, seconds=timeout, remedy=words) from error
    finally:
        line.clear()


@asynccontextmanager
async def _counted(registry: Registry, store: str | None) -> AsyncGenerator[None]:
    """Keep the calls as a gateway does."""
    place = None if store is None else calls_place(store)
    if place is None:
        yield
        return
    calls = CallFiles(place)
    registry.observe(calls)
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(calls.close)


_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_NAME = 100
# Only these: with another ending, a file might be read or run by some program of its finder.
_ENDINGS = {
    "application/gzip": ".gz",
    "application/json": ".json",
    "application/pdf": ".pdf",
    "application/zip": ".zip",
    "audio/aac": ".aac",
    "audio/flac": ".flac",
    "audio/mp3": ".mp3",
    "audio/mp4": ".m4a",
    "audio/mpeg": ".mp3",
    "audio/ogg": ".ogg",
    "audio/wav": ".wav",
    "audio/webm": ".webm",
    "audio/x-wav": ".wav",
    "image/avif": ".avif",
    "image/bmp": ".bmp",
    "image/gif": ".gif",
    "image/jpeg": ".jpg",
    "image/png": ".png",
    "image/svg+xml": ".svg",
    "image/tiff": ".tiff",
    "image/webp": ".webp",
    "text/csv": ".csv",
    "text/markdown": ".md",
    "text/plain": ".txt",
    "video/mp4": ".mp4",
    "video/webm": ".webm",
}


def show_result(result: ToolResult, *, tool: str, folder: Path) -> None:
    """Print the text of a result, and save its images and other files.

    Raises:
        ConfigError: when a file cannot be saved.
    """
    if not result.content and result.structured_content is not None:
        write_json(result.structured_content)
        return
    for block in result.content:
        blob = _blob_in(block)
        if blob is None:
            say(ToolResult(content=(block,)).text())
        else:
            data, kind = blob
            warn(f"Saved: {_save(data, folder, tool=tool, kind=kind)}")


def result_as_json(result: ToolResult) -> Mapping[str, Any]:
    """Return a result as ``--json`` prints it: one object, in the form of the protocol.

    ``content`` (a list of blocks), ``structuredContent`` if the tool gave some, ``isError``, and
    whatever else the server sent.
    """
    if result.wire is not None:
        return result.wire
    whole: dict[str, Any] = {"content": result.blocks(), "isError": result.is_error}
    if result.structured_content is not None:
        whole["structuredContent"] = result.structured_content
    return whole


def _blob_in(block: Content) -> tuple[str, str | None] | None:
    """Return the data of a block in base64, and its type."""
    match block:
        case Image() | Audio():
            return block.data, block.mime_type
        case EmbeddedResource(resource=held) if held.text is None:
            return held.blob or "", held.mime_type
        case _:
            return None


def _save(data: str, folder: Path, *, tool: str, kind: str | None) -> Path:
    try:
        content = base64.b64decode(data)
    except (binascii.Error, ValueError) as error:
        raise ConfigError(f"The data that {tool} returned is not base64: {error}.") from error
    # A server has no say in the name: in the current folder, `mcp.json` would be our own file.
    stem = _UNSAFE.sub("_", tool)[:_LONGEST_NAME].strip("._-") or "result"
    ending = _ENDINGS.get((kind or "").partition(";")[0].strip().casefold(), ".bin")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for number in count(1):
            path = folder / f"{stem}-{number}{ending}"
            try:
                # Nothing that is there is overwritten.
                with path.open("xb") as file:
                    file.write(content)
            except FileExistsError:
                continue
            return path
    except OSError as error:
        raise ConfigError(f"{folder} cannot be written to: {error.strerror}.") from error
    raise AssertionError("Counting never ends.")
