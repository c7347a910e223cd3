"""Texts: counts, compares and rewrites them."""

import base64
import difflib
import hashlib
import re
import unicodedata
from typing import Annotated, Literal

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

server: MCPServer = MCPServer("texts")

Text = Annotated[str, Field(description="any text")]


@server.tool()
def count_words(text: Text) -> dict[str, int]:
    """Count the characters, words and lines of a text."""
    return {"characters": len(text), "words": len(text.split()), "lines": len(text.splitlines())}


@server.tool()
def compare_texts(before: Text, after: Text) -> str:
    """Show the difference between two texts, line by line, as a unified diff."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), "before", "after", "")
    return "\n".join(line.rstrip("\n") for line in lines)


@server.tool()
def make_slug(title: Text) -> str:
    """Turn a title into the last part of a web address: small letters, digits and hyphens."""
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")


@server.tool()
def hash_text(text: Text, algorithm: Literal["sha256", "sha512", "blake2b"] = "sha256") -> str:
    """Compute the checksum of a text, in hexadecimal."""
    return hashlib.new(algorithm, text.encode()).hexdigest()


@server.tool()
def encode_base64(text: Text) -> str:
    """Encode a text as Base64."""
    return base64.b64encode(text.encode()).decode()


@server.tool()
def decode_base64(encoded: Annotated[str, Field(description="Base64 of a text")]) -> str:
    """Decode a text from Base64."""
    try:
        return base64.b64decode(encoded, validate=True).decode()
    except ValueError as error:
        raise ToolError(f"That is not the Base64 of a text: {error}.") from error


@server.prompt()
def summarize(text: Text) -> str:
    """Ask for a summary of a text."""
    return f"Summarize the following text in two sentences:\n\n{text}"


if __name__ == "__main__":
    server.run()
