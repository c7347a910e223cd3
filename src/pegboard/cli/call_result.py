"""What a tool answered: texts to standard output, pictures and other bytes to files."""

import base64
import binascii
import mimetypes
import re
from collections.abc import Mapping
from itertools import count
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from pegboard.cli.output import say, warn, write_json
from pegboard.errors import ConfigError
from pegboard.model import Audio, Content, EmbeddedResource, Image, ToolResult

__all__ = ["result_as_json", "show_result"]

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_NAME = 100


def show_result(result: ToolResult, *, tool: str, folder: Path) -> None:
    """Print what a tool answered, and save what is no text.

    Raises:
        ConfigError: when something cannot be saved.
    """
    if not result.content and result.structured_content is not None:
        write_json(result.structured_content)
        return
    for block in result.content:
        blob = _blob_in(block)
        if blob is None:
            say(ToolResult(content=(block,)).text())
        else:
            data, kind, name = blob
            warn(f"Saved: {_save(data, _file_name(name or tool, kind), folder)}")


def result_as_json(result: ToolResult) -> Mapping[str, Any]:
    """Return a result as ``--raw`` has it: as the protocol writes it.

    ``content`` (a list of blocks), ``structuredContent`` if the tool gave some, ``isError``, and
    whatever else the server sent.
    """
    if result.wire is not None:
        return result.wire
    whole: dict[str, Any] = {"content": result.blocks(), "isError": result.is_error}
    if result.structured_content is not None:
        whole["structuredContent"] = result.structured_content
    return whole


def _blob_in(block: Content) -> tuple[str, str | None, str] | None:
    """Return the data of a block in base64, its type, and what it could be called."""
    match block:
        case Image() | Audio():
            return block.data, block.mime_type, ""
        case EmbeddedResource(resource=held) if held.text is None:
            return held.blob or "", held.mime_type, PurePosixPath(urlsplit(held.uri).path).name
        case _:
            return None


def _file_name(name: str, kind: str | None) -> str:
    safe = _UNSAFE.sub("_", name).strip("._")[:_LONGEST_NAME] or "result"
    suffix = mimetypes.guess_extension((kind or "").partition(";")[0].strip()) or ".bin"
    return safe if PurePosixPath(safe).suffix else f"{safe}{suffix}"


def _save(data: str, name: str, folder: Path) -> Path:
    try:
        content = base64.b64decode(data)
    except (binascii.Error, ValueError) as error:
        raise ConfigError(f"What the tool gave as {name} is no base64: {error}.") from error
    wanted = PurePosixPath(name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for number in count(1):
            suffix = "" if number == 1 else f"-{number}"
            path = folder / f"{wanted.stem}{suffix}{wanted.suffix}"
            try:
                # Nothing that is there is overwritten.
                with path.open("xb") as file:
                    file.write(content)
            except FileExistsError:
                continue
            return path
    except OSError as error:
        raise ConfigError(f"{folder / name} cannot be written: {error.strerror}.") from error
    raise AssertionError("Counting never ends.")
