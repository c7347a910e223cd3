"""A stored tool as a row of a database: its name, its body and its extras."""

import msgspec

from pegboard.model import Tool, freeze
from pegboard.storage.encoding import decode_tool, encode_extras, encode_tool
from pegboard.storage.store import StoredTool

__all__ = ["Row", "look_at_schemas", "read_row", "row_of"]

Row = tuple[str, bytes, bytes | None]
"""Without extras when the tool does not speak of any; those that are there stay then."""


def row_of(tool: object) -> Row:
    """Return a tool as it is written.

    Raises:
        TypeError: when it is neither a `Tool` nor a `StoredTool`.
        InvalidToolError, ValueError: when JSON cannot hold it exactly.
    """
    extras = None
    if isinstance(tool, StoredTool):
        tool, extras = tool.tool, encode_extras(tool.extras)
    if not isinstance(tool, Tool):
        raise TypeError(f"A store keeps tools, not {type(tool).__name__!r}.")
    return tool.name, encode_tool(tool), extras


def read_row(body: bytes, revision: int, extras: str | bytes | None) -> StoredTool:
    """Return a tool as it was written.

    Raises:
        TypeError, ValueError: when it is not what was written.
    """
    if extras is None or extras in ("{}", b"{}"):
        return StoredTool(tool=decode_tool(body), revision=revision)
    known = freeze(msgspec.json.decode(extras))
    return StoredTool(tool=decode_tool(body), revision=revision, extras=known)


def look_at_schemas(stored: StoredTool) -> None:
    """Read the schemas, which are otherwise read when a caller asks for them.

    Raises:
        ValueError: when it is not JSON.
    """
    _ = stored.tool.input_schema, stored.tool.output_schema
