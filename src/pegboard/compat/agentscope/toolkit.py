"""AgentScope's Toolkit: the tools of an agent, local and remote, called in the same way."""

import asyncio  # noqa: TID251 - a tool that goes on after its call has no task group
import functools
import inspect
import logging
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import aclosing
from typing import Any, TypeAlias, Unpack, cast
from uuid import uuid4

from pegboard.compat.agentscope.binding import (
    Finish,
    bind,
    chunks_of,
    failed,
    failure,
    gathered,
    in_time,
    interrupted,
    only,
    responses,
    words_of,
)
from pegboard.compat.agentscope.blocks import ToolResponse, ToolUseBlock, saying
from pegboard.compat.agentscope.client import MCPClientBase
from pegboard.compat.agentscope.function import (
    JsonSchema,
    MCPToolFunction,
    SchemaForm,
    checked_schema,
    function_schema,
    without_arguments,
)
from pegboard.compat.agentscope.registered import (
    BASIC,
    Postprocess,
    RegisteredToolFunction,
    ToolkitState,
)
from pegboard.errors import ToolConflictError
from pegboard.policies import Deadline, PolicyOptions
from pegboard.registry import OnConflict, Registry

__all__ = ["Middleware", "Toolkit"]

logger: logging.Logger = logging.getLogger("pegboard.compat")

Handler: TypeAlias = Callable[..., Coroutine[Any, Any, AsyncGenerator[ToolResponse]]]
Middleware: TypeAlias = Callable[[dict[str, Any], Handler], AsyncGenerator[ToolResponse]]
"""Takes ``{"tool_call": ...}`` and the next handler, and yields the responses of a call."""


class _OverlapError(ValueError, AssertionError):
    """AgentScope asserts that no tool is both enabled and disabled."""


class Toolkit(ToolkitState):
    """The tools of an agent by name.

    A call of a tool that does not exist, is not active or fails is answered by a `ToolResponse`
    that says so, and so is a call that is cancelled: the agent can go on.

    Args:
        agent_skill_instruction: the text above the skills in `get_agent_skill_prompt`.
        agent_skill_template: the text for one skill, with ``{name}``, ``{description}`` and
            ``{dir}``.
        raise_errors: raise these errors instead, and let a cancellation pass.
        policies: policies around each call, ``Toolkit(deadline=Deadline(30))``. Arguments are not
            validated unless you ask for it: ``Toolkit(validation=Validation())``.
    """

    def __init__(
        self,
        agent_skill_instruction: str | None = None,
        agent_skill_template: str | None = None,
        *,
        raise_errors: bool = False,
        **policies: Unpack[PolicyOptions],
    ) -> None:
        super().__init__(agent_skill_instruction, agent_skill_template)
        self._raise_errors = raise_errors
        self._middlewares: list[Middleware] = []
        self._time_limits: dict[str, float | None] = {}
        self._has_deadline = policies.get("deadline") is not None
        self._policies: PolicyOptions = {"validation": None, **policies}
        self._registry = Registry(**self._policies)
        self._bound: dict[str, tuple[object, ...]] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._results: dict[str, ToolResponse] = {}

    def __getstate__(self) -> dict[str, Any]:
        # A copy has a registry of its own, and the tools that were started stay here.
        return {**self.__dict__, "_registry": None, "_bound": {}, "_running": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._registry = Registry(**self._policies)

    @property
    def registry(self) -> Registry:
        """The core registry that calls go through, with the tools and groups of this moment."""
        for name in self._bound.keys() - self.tools:
            self._registry.unregister(name)
            del self._bound[name]
        for name in self.tools:
            self._bring_up_to_date(name)
        for group in {*self.groups, *(tool.group for tool in self.tools.values())}:
            if self._is_group_active(group):
                self._registry.enable_group(group)
            else:
                self._registry.disable_group(group)
        return self._registry

    def register_tool_function(  # noqa: PLR0913 - AgentScope's signature
        self,
        tool_func: Callable[..., Any] | MCPToolFunction,
        group_name: str = BASIC,
        preset_kwargs: Mapping[str, Any] | None = None,
        func_name: str | None = None,
        func_description: str | None = None,
        json_schema: JsonSchema | None = None,
        include_long_description: bool = True,  # noqa: FBT001, FBT002
        include_var_positional: bool = False,  # noqa: FBT001, FBT002
        include_var_keyword: bool = False,  # noqa: FBT001, FBT002
        postprocess_func: Postprocess | None = None,
        namesake_strategy: OnConflict = "raise",
        async_execution: bool = False,  # noqa: FBT001, FBT002
        *,
        execution_timeout: float | None = None,
    ) -> None:
        """Register a function of this process, or a function of a client.

        Args:
            tool_func: a function, asynchronous or not, a generator function of either kind, a
                ``functools.partial`` of one, or a function of a client.
            group_name: the group that the tool belongs to.
            preset_kwargs: arguments that the model can neither see nor change.
            func_name: the name of the tool, if not that of the function.
            func_description: the description, if not that of the docstring.
            json_schema: the whole definition, in the form of `get_json_schemas`.
            include_long_description: take more than the first paragraph of the docstring.
            include_var_positional: describe ``*args``.
            include_var_keyword: describe ``**kwargs``.
            postprocess_func: sees each response before the agent, and may replace it.
            namesake_strategy: what to do when the name is taken.
            async_execution: only start the tool; see `wait_task`.
            execution_timeout: after this many seconds, a call ends with `ToolTimeoutError`. A
                function that is not asynchronous then runs in a thread.

        Raises:
            ValueError: when the name is taken, there is no such group, or `json_schema` is
                malformed.
        """
        self._check_group(group_name)
        preset = dict(preset_kwargs or {})
        given = None if not json_schema else checked_schema(json_schema)
        mcp_name = None
        if isinstance(tool_func, MCPToolFunction):
            function, name, mcp_name = tool_func.__call__, tool_func.name, tool_func.mcp_name
            schema = given or checked_schema(tool_func.json_schema)
        else:
            if isinstance(tool_func, functools.partial):
                partial = cast("functools.partial[Any]", tool_func)
                preset, tool_func = {**_given_before(partial), **preset}, partial.func
            form = SchemaForm(include_long_description, include_var_positional, include_var_keyword)
            function, name = tool_func, tool_func.__name__
            schema = given or function_schema(function, form)
        schema["function"]["name"] = func_name or name
        if func_description:
            schema["function"]["description"] = func_description
        without_arguments(schema, preset)
        tool = RegisteredToolFunction(
            name=func_name or name,
            group=group_name,
            source="function",
            original_func=function,
            json_schema=schema,
            preset_kwargs=preset,
            original_name=name if func_name else None,
            mcp_name=mcp_name,
            postprocess_func=postprocess_func,
            async_execution=async_execution,
        )
        self._put(tool, namesake_strategy, execution_timeout)

    async def register_mcp_client(  # noqa: PLR0913 - AgentScope's signature
        self,
        mcp_client: MCPClientBase,
        group_name: str = BASIC,
        enable_funcs: list[str] | None = None,
        disable_funcs: list[str] | None = None,
        preset_kwargs_mapping: Mapping[str, Mapping[str, Any]] | None = None,
        postprocess_func: Postprocess | None = None,
        namesake_strategy: OnConflict = "raise",
        execution_timeout: float | None = None,
    ) -> None:
        """Register the tools of a client, all of them or none.

        Args:
            mcp_client: the client.
            group_name: the group that the tools belong to.
            enable_funcs: register only these tools.
            disable_funcs: register all tools except these.
            preset_kwargs_mapping: by tool, arguments that the model can neither see nor change.
            postprocess_func: sees each response before the agent, and may replace it.
            namesake_strategy: what to do when a name is taken.
            execution_timeout: after this many seconds, a call ends with `ToolTimeoutError`.

        Raises:
            ValueError: when a name is taken, there is no such group, or a tool is both enabled and
                disabled.
            UpstreamError: when the server cannot list its tools.
        """
        if overlap := set(enable_funcs or ()) & set(disable_funcs or ()):
            both = ", ".join(map(repr, sorted(overlap)))
            raise _OverlapError(f"These tools are both enabled and disabled: {both}.")
        presets = preset_kwargs_mapping
        if presets is not None and not isinstance(presets, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(
                f"`preset_kwargs_mapping` takes an object (a dict), not {type(presets).__name__!r}."
            )
        self._check_group(group_name)
        listed: list[str] = [tool.name for tool in await mcp_client.list_tools()]
        _warn_of_missing(listed, enable_funcs, disable_funcs, presets)
        names = [
            name
            for name in listed
            if (enable_funcs is None or name in enable_funcs) and name not in (disable_funcs or ())
        ]
        if namesake_strategy == "raise":
            for name in names:
                self._check_free(name)
        for name in names:
            function = await mcp_client.get_callable_function(
                name, wrap_tool_result=True, execution_timeout=execution_timeout
            )
            self.register_tool_function(
                function,
                group_name,
                (presets or {}).get(name),
                postprocess_func=postprocess_func,
                namesake_strategy=namesake_strategy,
            )

    async def remove_mcp_servers(
        self, client_names: Iterable[str | MCPClientBase] | str | MCPClientBase
    ) -> None:
        """Remove all tools of these clients; a client without tools is logged.

        Raises:
            TypeError: when one of them is neither a client nor the name of one.
        """
        given = [client_names] if isinstance(client_names, str | MCPClientBase) else client_names
        names = [it.name if isinstance(it, MCPClientBase) else it for it in given]
        if not all(isinstance(it, str) for it in names):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError("`client_names` takes a list of names.")
        for name in names:
            tools = [key for key, tool in self.tools.items() if tool.mcp_name == name]
            if not tools:
                logger.warning("client_missing: no tool comes from a client named %r", name)
            for tool in tools:
                del self.tools[tool]

    async def remove_mcp_clients(
        self, client_names: Iterable[str | MCPClientBase] | str | MCPClientBase
    ) -> None:
        """Do what `remove_mcp_servers` does."""
        await self.remove_mcp_servers(client_names)

    async def call_tool_function(
        self, tool_call: ToolUseBlock | Mapping[str, Any]
    ) -> AsyncGenerator[ToolResponse]:
        """Return the responses of a tool: one, or as many as it yields.

        The tool starts when the first response is asked for. What a generator raises after its
        start reaches the reader.
        """
        return self._through_middlewares(cast("ToolUseBlock", tool_call))

    def register_middleware(self, middleware: Middleware) -> None:
        """Put a middleware around each call, inside of those that are registered already.

        It may change the call, the responses, or answer by itself.
        """
        self._middlewares.append(middleware)

    async def view_task(self, task_id: str) -> ToolResponse:
        """Tell how a tool is doing that was only started; once it is done, return its response."""
        if task_id in self._running:
            return saying(f"Task {task_id} is still running.")
        return self._results.pop(task_id, None) or _unknown(task_id)

    async def cancel_task(self, task_id: str) -> ToolResponse:
        """Cancel a tool that was only started."""
        if task_id in self._results:
            return saying(f"Task {task_id} has already completed and cannot be cancelled.")
        if task_id not in self._running:
            return _unknown(task_id)
        self._running.pop(task_id).cancel()
        return saying(f"Task {task_id} has been cancelled.")

    async def wait_task(self, task_id: str, timeout: float = 10) -> ToolResponse:  # noqa: ASYNC109
        """Wait for a tool that was only started, and return its response."""
        if task_id in self._running:
            await asyncio.wait([self._running[task_id]], timeout=timeout)
        if task_id in self._running:
            return saying(f"Task {task_id} is still running after waiting for {timeout} seconds.")
        return self._results.pop(task_id, None) or _unknown(task_id)

    async def _through_middlewares(self, call: ToolUseBlock) -> AsyncGenerator[ToolResponse]:
        handler: Handler = self._answer
        for middleware in reversed(self._middlewares):
            handler = _layer(middleware, handler)
        stream = await handler(tool_call=call)
        async with aclosing(chunks_of(stream)) as chunks:
            async for chunk in chunks:
                yield cast("ToolResponse", chunk)

    async def _answer(self, tool_call: ToolUseBlock) -> AsyncGenerator[ToolResponse]:
        name = tool_call["name"]
        tool = self.tools.get(name)
        if tool is not None and tool.async_execution and self.is_active(tool):
            return only(self._start(tool, tool_call))
        if not self._raise_errors:
            if tool is None:
                return only(_refused("NotFound", f"Cannot find the function named {name}"))
            if not self.is_active(tool):
                return only(_inactive(tool))
        answer = await self._outcome(tool_call)
        finish = _finishing(tool, tool_call)
        return responses(answer, finish, raise_errors=self._raise_errors)

    async def _outcome(self, asked: ToolUseBlock) -> object:
        try:
            return await self._call(asked)
        except asyncio.CancelledError:
            if self._raise_errors:
                raise
            return interrupted(stream=True)
        except Exception as error:
            if self._raise_errors:
                raise
            tool = self.tools.get(asked["name"])
            return failure(error, remote=tool is not None and tool.mcp_name is not None)

    async def _call(self, asked: ToolUseBlock) -> object:
        name = asked["name"]
        tool = self.tools.get(name)
        if tool is None or not self.is_active(tool):
            registry = self.registry  # it says what is wrong
        else:
            registry = self._registry
            self._bring_up_to_date(name)
            registry.enable_group(tool.group)
        meta = {"tool_use_id": asked.get("id", "")}
        answer: object = await registry.acall(name, asked.get("input") or {}, meta)
        limit = self._time_limits.get(name)
        if limit is None or not isinstance(answer, AsyncIterator | Iterator):
            return answer
        return in_time(cast("object", answer), name, limit)

    def _start(self, tool: RegisteredToolFunction, asked: ToolUseBlock) -> ToolResponse:
        task_id = uuid4().hex

        async def work() -> None:
            try:
                response = await gathered(await self._outcome(asked))
                self._results[task_id] = await _finishing(tool, asked)(response)
            except asyncio.CancelledError:
                said = "<system-info>The tool call has been cancelled by the user.</system-info>"
                self._results[task_id] = saying(said, is_interrupted=True)
            except Exception as error:  # noqa: BLE001 - the agent learns of it when it asks
                self._results[task_id] = failed(f"Error during async execution: {words_of(error)}")
            finally:
                self._running.pop(task_id, None)

        self._running[task_id] = asyncio.create_task(work())
        return saying(
            f"<system-reminder>Tool '{tool.name}' is executing asynchronously. "
            f"Task ID: {task_id}. Use view_task('{task_id}') to check status, "
            f"wait_task('{task_id}') to wait for completion, or cancel_task('{task_id}') "
            "to cancel the task.</system-reminder>"
        )

    def _put(self, tool: RegisteredToolFunction, strategy: OnConflict, limit: float | None) -> None:
        if tool.name in self.tools:
            if strategy == "raise":
                self._check_free(tool.name)
            if strategy not in ("override", "skip", "rename"):
                raise ValueError(
                    f"`namesake_strategy` must be 'raise', 'override', 'skip' or 'rename', not "
                    f"{strategy!r}."
                )
            logger.warning("tool_exists: name=%r: %s", tool.name, strategy)
            if strategy == "skip":
                return
            if strategy == "rename":
                tool.original_name = tool.original_name or tool.name
                tool.name = self._free_name(tool.name)
                tool.json_schema["function"]["name"] = tool.name
        self.tools[tool.name] = tool
        self._time_limits[tool.name] = limit

    def _bring_up_to_date(self, name: str) -> None:
        tool = self.tools[name]
        state = (tool, tool.group, tool.extended_model, tool.json_schema)
        if name in self._bound and all(map(_same, self._bound[name], state)):
            return
        limit = self._time_limits.get(name)
        policies: PolicyOptions = {} if limit is None else {"deadline": Deadline(limit)}
        local = not inspect.iscoroutinefunction(tool.original_func)
        bound = bind(name, tool, in_thread=local and (limit is not None or self._has_deadline))
        self._registry.register(bound, on_conflict="override", groups=[tool.group], **policies)
        self._bound[name] = state

    def _free_name(self, name: str) -> str:
        number = 2
        while f"{name}_{number}" in self.tools:
            number += 1
        return f"{name}_{number}"

    def _check_free(self, name: str) -> None:
        if name in self.tools:
            remedy = (
                "Pass `namesake_strategy` as 'override', 'skip' or 'rename', or call "
                "`remove_tool_function` first."
            )
            raise ToolConflictError(name, remedy=remedy)

    def _check_group(self, name: str) -> None:
        if name not in self.groups and name != BASIC:
            known = ", ".join(map(repr, (BASIC, *self.groups)))
            raise ValueError(f"No tool group is named {name!r}; the known ones are {known}.")


def _same(one: object, other: object) -> bool:
    return one is other


def _given_before(function: functools.partial[Any]) -> dict[str, Any]:
    """Return the arguments of a partial function by name."""
    names = inspect.signature(function.func).parameters
    return {**function.keywords, **dict(zip(names, function.args, strict=False))}


def _layer(middleware: Middleware, handler: Handler) -> Handler:
    async def run(**kwargs: Any) -> AsyncGenerator[ToolResponse]:
        return middleware(kwargs, handler)

    return run


def _finishing(tool: RegisteredToolFunction | None, asked: ToolUseBlock) -> Finish:
    postprocess = None if tool is None else tool.postprocess_func

    async def finish(response: ToolResponse) -> ToolResponse:
        seen = None if postprocess is None else postprocess(asked, response)
        return (await seen if isinstance(seen, Awaitable) else seen) or response

    return finish


def _refused(kind: str, text: str) -> ToolResponse:
    return failed(f"Function{kind}Error: {text}")


def _inactive(tool: RegisteredToolFunction) -> ToolResponse:
    return _refused(
        "Inactive",
        f"The function '{tool.name}' is in the inactive group '{tool.group}'. Activate the tool "
        "group by calling 'reset_equipped_tools' first to use this tool.",
    )


def _unknown(task_id: str) -> ToolResponse:
    return saying(f"InvalidTaskIdError: Cannot find async task with ID {task_id}.")


def _warn_of_missing(listed: list[str], *asked_for: Iterable[str] | None) -> None:
    for names in asked_for:
        # A bare string names one tool, or parts of it.
        for name in sorted(set(() if names is None or isinstance(names, str) else names)):
            if name not in listed:
                logger.warning("tool_missing: the server has no tool named %r", name)
