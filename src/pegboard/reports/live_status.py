"""The status of the servers of a running gateway, with the tokens and the calls of their tools."""

from collections import Counter
from collections.abc import Mapping

from pegboard.doctor.status import KnownStatus, unusable_status
from pegboard.gateway.catalog.tool_list import raw_definition
from pegboard.hub import Hub
from pegboard.model import Tool
from pegboard.model.tool import definition_of
from pegboard.reports.cost import ToolCost, estimated

__all__ = ["CallNumbers", "LiveCosts", "live_status"]

CallNumbers = Mapping[str, Mapping[str, int]]
"""How many calls ended in which way, by server, as `Metrics.calls` counts them."""


class LiveCosts:
    """The tokens of each tool of a hub; a definition is counted once, until it changes."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._counted: dict[str, tuple[Tool, ToolCost]] = {}

    def read(self) -> list[ToolCost]:
        """Return the cost of all tools, by name; takes a while for thousands that are new."""
        before, now = self._counted, dict[str, tuple[Tool, ToolCost]]()
        for tool in sorted(self._hub.registry.tools(), key=lambda it: it.name):
            known = before.get(tool.name)
            now[tool.name] = (
                known if known is not None and known[0] is tool else (tool, self._cost(tool))
            )
        self._counted = now
        return [cost for _, cost in now.values()]

    def of(self, tool: Tool) -> ToolCost:
        """Return the cost of one tool."""
        known = self._counted.get(tool.name)
        if known is None or known[0] is not tool:
            known = self._counted[tool.name] = tool, self._cost(tool)
        return known[1]

    def _cost(self, tool: Tool) -> ToolCost:
        definition = definition_of(tool, raw_definition(self._hub, tool))
        return ToolCost(tool.name, tool.server, estimated(definition))


def live_status(hub: Hub, costs: LiveCosts, numbers: CallNumbers) -> list[KnownStatus]:
    """Return the status of each configured server, also of entries that cannot be used."""
    tokens: Counter[str] = Counter()
    for cost in costs.read():
        # A definition that a client registered for a server is not one of its own tools.
        if cost.server is not None and not hub.registry.is_definition(cost.name):
            tokens[cost.server] += cost.tokens
    found: list[KnownStatus] = []
    for it in hub.servers.values():
        ended = numbers.get(it.name, {})
        calls = sum(ended.values())
        # One that never started may have any number of tools, unless they are cached.
        is_known = it.era is not None or it.tool_count > 0
        found.append(
            KnownStatus(
                server=it.name,
                state=it.state.value,
                transport=it.transport,
                target=it.target,
                era=it.era,
                protocol_version=it.protocol_version,
                server_version=it.server_version,
                tools=it.tool_count if is_known else None,
                tokens=tokens[it.name] if is_known else None,
                startup_seconds=it.startup_seconds,
                starts=it.starts,
                calls=calls,
                failed_calls=calls - ended.get("ok", 0),
                last_error=it.last_error,
            )
        )
    known = {it.server for it in found}
    return [*found, *(it for it in unusable_status(hub.loaded) if it.server not in known)]
