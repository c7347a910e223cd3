"""Introduction: what a client says of itself is kept while it stays, so it has to be short."""

from collections.abc import Mapping
from typing import Any

from mcp_types import INVALID_PARAMS

from pegboard.gateway.request import RpcError
from pegboard.server.messages import encode

__all__ = ["check_introduction"]

LONGEST = 16_384
"""How many bytes of JSON the capabilities of a client and its description may have together."""


def check_introduction(capabilities: Mapping[str, Any], info: Mapping[str, Any]) -> None:
    """Refuse what is too long to be kept.

    Raises:
        RpcError: when it is.
    """
    if len(encode(capabilities)) + len(encode(info)) > LONGEST:
        words = f"Capabilities and clientInfo have more than {LONGEST} bytes."
        raise RpcError(INVALID_PARAMS, words)
