"""AgentScope's Toolkit: the tools of an agent, local and remote, called in the same way."""

import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from typing import Any, TypedDict, Unpack, cast

import msgspec

from pegboard.compat.agentscope.binding import Binding, Postprocess, bind_local, bind_remote
from pegboard.compat.agentscope.blocks import ToolResponse, ToolUseBlock
from pegboard.compat.agentscope.client import MCPClientBase
from pegboard.compat.agentscope.function import (
    MCPToolFunction,
    check_options,
    extract_json_schema,
)
from pegboard.errors import InvalidToolError
from pegboard.policies import Deadline, PolicyOptions
from pegboard.registry import BoundTool, OnConflict, Registry

__all__ = ["ClientRegistration", "FunctionRegistration", "Toolkit"]

logger: logging.Logger = logging.getLogger("pegboard.compat")

BASIC = "basic"
"""The group that is always active."""


class FunctionRegistration(Binding, total=False):
    """Options for registering a function."""

    namesake_strategy: OnConflict
    """What to do when the name is taken: ``raise``, ``override``, ``skip`` or ``rename``."""


class ClientRegistration(TypedDict, total=False):
    """Options for registering the tools of a client."""

    enable_funcs: Iterable[str] | None
    """Register only these tools."""
    disable_funcs: Iterable[str] | None
    """Register all tools except these."""
    preset_kwargs_mapping: Mapping[str, Mapping[str, Any]] | None
    """By tool, arguments that the model can neither see nor change."""
    postprocess_func: Postprocess | None
    namesake_strategy: OnConflict
    execution_timeout: float | None


class Toolkit:
    """Tools by name. A name that is taken is refused, and arguments are not validated.

    Policies change that: ``Toolkit(validation=Validation(), deadline=Deadline(30))``.
    """

    def __init__(self, **policies: Unpack[PolicyOptions]) -> None:
        options: PolicyOptions = {"validation": None, **policies}
        self.registry: Registry = Registry(**options)
        """The core registry underneath."""
        self._groups: dict[str, str] = {BASIC: "Always active."}

    def register_tool_function(
        self,
        tool_func: Callable[..., Any] | MCPToolFunction,
        group_name: str = BASIC,
        **options: Unpack[FunctionRegistration],
    ) -> None:
        """Register a function of this process, or a function of a client.

        Raises:
            ValueError: when the name is taken, or there is no such group.
            TypeError: when its signature cannot be described.
        """
        check_options(options, FunctionRegistration)
        self._check_group(group_name)
        if isinstance(tool_func, MCPToolFunction):
            bound = bind_remote(tool_func, tool_func.json_schema, options)
            bound = _from_client(tool_func.mcp_name, bound)
        else:
            bound = bind_local(tool_func, options)
        self._put([bound], group_name, options)

    async def register_mcp_client(
        self,
        client: MCPClientBase,
        group_name: str = BASIC,
        **options: Unpack[ClientRegistration],
    ) -> None:
        """Register the tools of a client, all of them or none.

        Raises:
            ValueError: when a name is taken, there is no such group, or a tool is both enabled and
                disabled.
            UpstreamError: when the server cannot list its tools.
        """
        check_options(options, ClientRegistration)
        self._check_group(group_name)
        bound: list[BoundTool] = []
        for tool in _chosen(await client.list_tools(), options):
            function = await client.get_callable_function(tool.name, wrap_tool_result=True)
            try:
                one = bind_remote(function, extract_json_schema(tool), _binding(tool.name, options))
            except InvalidToolError as error:
                logger.warning("tool_skipped: client=%r: %s", client.name, error)
            else:
                bound.append(_from_client(client.name, one))
        self._put(bound, group_name, options)

    def remove_tool_function(self, tool_name: str) -> None:
        """Remove a tool; an unknown name is logged."""
        if tool_name in self.registry:
            self.registry.unregister(tool_name)
        else:
            logger.warning("tool_missing: no tool is named %r, so none is removed", tool_name)

    async def remove_mcp_servers(
        self, client_names: Iterable[str | MCPClientBase] | str | MCPClientBase
    ) -> None:
        """Remove all tools of these clients; a client without tools is logged."""
        given = [client_names] if isinstance(client_names, str | MCPClientBase) else client_names
        for client in given:
            name = client if isinstance(client, str) else client.name
            tools = [tool for tool in self.registry if self.registry.get(tool).server == name]
            if not tools:
                logger.warning("client_missing: no tool comes from a client named %r", name)
            for tool in tools:
                self.registry.unregister(tool)

    async def remove_mcp_clients(
        self, client_names: Iterable[str | MCPClientBase] | str | MCPClientBase
    ) -> None:
        """Do what `remove_mcp_servers` does."""
        await self.remove_mcp_servers(client_names)

    def create_tool_group(
        self, group_name: str, description: str = "", *, active: bool = False
    ) -> None:
        """Create a group of tools that can be seen and called only while it is active.

        Raises:
            ValueError: when there is a group of that name.
        """
        if group_name in self._groups:
            raise ValueError(f"A tool group named {group_name!r} already exists.")
        self._groups[group_name] = description
        self.update_tool_groups([group_name], active=active)

    def update_tool_groups(self, group_names: Iterable[str], *, active: bool) -> None:
        """Switch groups on or off; ``"basic"`` stays on.

        Raises:
            ValueError: when there is no such group.
        """
        for name in group_names:
            self._check_group(name)
            if active:
                self.registry.enable_group(name)
            elif name != BASIC:
                self.registry.disable_group(name)

    def get_json_schemas(self) -> list[dict[str, Any]]:
        """Return the definitions of all active tools, in the form for a model."""
        return [extract_json_schema(tool) for tool in self.registry.tools()]

    async def call_tool_function(
        self, tool_call: ToolUseBlock | Mapping[str, Any]
    ) -> AsyncGenerator[ToolResponse]:
        """Call a tool, and return its responses: one, or as many as it yields.

        Raises:
            ValueError: when there is no such tool.
            CallRefusedError: when its group is not active, or a policy refuses the call.
            UpstreamError: when the tool is remote and its server fails.
        """
        asked = cast("Mapping[str, Any]", tool_call)
        meta = {"tool_use_id": asked.get("id", "")}
        answer = await self.registry.acall(asked["name"], asked.get("input") or {}, meta)
        return _only(answer) if isinstance(answer, ToolResponse) else answer

    def clear(self) -> None:
        """Remove all tools."""
        for name in self.registry:
            self.registry.unregister(name)

    def _check_group(self, name: str) -> None:
        if name not in self._groups:
            known = ", ".join(repr(group) for group in self._groups)
            raise ValueError(f"No tool group is named {name!r}; the known ones are {known}.")

    def _put(
        self,
        bound: list[BoundTool],
        group: str,
        options: FunctionRegistration | ClientRegistration,
    ) -> None:
        limit = options.get("execution_timeout")
        policies: PolicyOptions = {} if limit is None else {"deadline": Deadline(limit)}
        strategy = options.get("namesake_strategy", "raise")
        self.registry.register_many(bound, on_conflict=strategy, groups=[group], **policies)


async def _only(response: ToolResponse) -> AsyncGenerator[ToolResponse]:
    yield response


def _binding(tool: str, options: ClientRegistration) -> Binding:
    presets = options.get("preset_kwargs_mapping") or {}
    return {
        "preset_kwargs": presets.get(tool),
        "postprocess_func": options.get("postprocess_func"),
    }


def _from_client(client: str, bound: BoundTool) -> BoundTool:
    tool = msgspec.structs.replace(bound.tool, server=client)
    return msgspec.structs.replace(bound, tool=tool)


def _chosen(tools: list[Any], options: ClientRegistration) -> list[Any]:
    enabled, disabled = options.get("enable_funcs"), options.get("disable_funcs")
    if isinstance(enabled, str) or isinstance(disabled, str):
        # A bare string would be read as a list of one-letter names.
        raise TypeError("`enable_funcs` and `disable_funcs` must be lists of names.")
    there = {tool.name: tool for tool in tools}
    only = set(there if enabled is None else enabled)
    never = set(disabled or ())
    if enabled is not None and only & never:
        both = ", ".join(repr(name) for name in sorted(only & never))
        raise ValueError(f"These tools are both enabled and disabled: {both}. Name each tool once.")
    asked_for = only | never | set(options.get("preset_kwargs_mapping") or {})
    for name in sorted(asked_for - set(there)):
        logger.warning("tool_missing: the server has no tool named %r", name)
    return [tool for name, tool in there.items() if name in only - never]
