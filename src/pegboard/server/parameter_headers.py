"""Arguments that a tool wants to see in headers, too: they must say the same in both places."""

from collections.abc import Mapping
from typing import Any, cast

from mcp.shared.inbound import (
    MCP_PARAM_HEADER_PREFIX,
    find_invalid_x_mcp_header,
    validate_mcp_param_headers,
    x_mcp_header_map,
)

from pegboard.gateway.request import Exchange
from pegboard.server.answering import Answering
from pegboard.server.modern import refusal_of

__all__ = ["ParameterHeaders"]

_PREFIX = MCP_PARAM_HEADER_PREFIX.lower()
_REMEMBERED = 4096


class ParameterHeaders:
    """Checks the ``Mcp-Param-*`` headers of calls; remembers which schemas ask for none."""

    def __init__(self, gateway: Answering) -> None:
        self._gateway = gateway
        # The schema is kept beside the answer, so that its id stays its own.
        self._known: dict[int, tuple[object, bool]] = {}

    def check(self, exchange: Exchange, headers: Mapping[str, str]) -> None:
        """Compare the headers of a call with its arguments.

        Raises:
            RpcError: when they differ; but of a tool that may not be called this is not told.
        """
        params, client = exchange.params, exchange.client
        name = params.get("name")
        arguments: Any = params.get("arguments") or {}
        if not isinstance(name, str) or not isinstance(arguments, dict):
            return  # refused later, with better words
        if not arguments and not any(header.startswith(_PREFIX) for header in headers):
            return
        schema = self._gateway.input_schema(client, name)
        if schema is None or not self._asks_for_headers(schema):
            return
        given = cast("dict[str, Any]", arguments)
        rejection = validate_mcp_param_headers(schema, given, headers)
        if rejection is not None and self._gateway.missing_scope(exchange) is None:
            raise refusal_of(rejection)

    def _asks_for_headers(self, schema: Mapping[str, Any]) -> bool:
        known = self._known.get(id(schema))
        if known is not None and known[0] is schema:
            return known[1]
        asks = find_invalid_x_mcp_header(schema) is None and bool(x_mcp_header_map(schema))
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        self._known[id(schema)] = (schema, asks)
        return asks
