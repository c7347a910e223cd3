"""Toolset: a chosen, renamed view of a registry, in the form an agent or a provider wants."""

import logging
from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from pegboard.errors import WouldDeadlockError
from pegboard.errors.extras import install_extra
from pegboard.model import Tool, ToolResult
from pegboard.model.tool_names import NameTable
from pegboard.registry import Registry
from pegboard.toolsets.agent_tool import AgentTool
from pegboard.toolsets.dialect import DialectError
from pegboard.toolsets.functions import (
    build_function,
    build_sync_function,
    function_name,
)
from pegboard.toolsets.live_view import ExposedTool, LiveView, WhyMissing
from pegboard.toolsets.openai import OpenAIApi
from pegboard.toolsets.selection import Selection, compile_selection

if TYPE_CHECKING:
    from agents import FunctionTool as OpenAIFunctionTool
    from langchain_core.tools import StructuredTool
    from pydantic_ai.toolsets import AbstractToolset

__all__ = ["Toolset"]

logger: logging.Logger = logging.getLogger("pegboard.toolsets")

T = TypeVar("T")


class Toolset:
    """A view of a registry, which always shows the current tools.

    Args:
        registry: holds the tools, and calls them.
        why_missing: returns a more helpful error for a missing tool.
        selection: which tools, and under which names; see `Selection`.

    Raises:
        TypeError: when the selection is malformed.
    """

    def __init__(
        self,
        registry: Registry,
        *,
        why_missing: WhyMissing | None = None,
        **selection: Unpack[Selection],
    ) -> None:
        self._registry = registry
        view = compile_selection(selection)
        self._view = LiveView(registry, (view,), why_missing=why_missing)
        self._function_names = NameTable(lambda _, tool: function_name(tool))

    def select(self, **more: Unpack[Selection]) -> "Toolset":
        """Return a narrower view of this one; patterns and new names apply to the names here."""
        narrower = Toolset(self._registry, **more)
        views = (*self._view.views, *narrower._view.views)
        narrower._view = LiveView(self._registry, views, why_missing=self._view.why_missing)
        return narrower

    def tools(self) -> tuple[Tool, ...]:
        """Return the definitions, under the names of the view.

        Raises:
            ToolConflictError: when two tools would have the same name from the start. A tool that
                is added later is left out instead, and is listed in `skipped`.
        """
        return tuple(exposed.tool for exposed in self._view.tools.values())

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the view."""
        return tuple(self._view.tools)

    def __len__(self) -> int:
        return len(self._view.tools)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.tools())

    def __contains__(self, name: object) -> bool:
        return name in self._view.tools

    def __repr__(self) -> str:
        return f"<Toolset of {len(self)} tools>"

    @property
    def skipped(self) -> Mapping[str, str]:
        """The tools that cannot be expressed for a provider, and why.

        A tool that was added later and would have the name of another is also here, under its name
        in the registry.
        """
        reasons = dict(self._view.left_out)
        self._each(lambda it: it.openai(strict=True, api="chat"), reasons)
        self._each(ExposedTool.anthropic, reasons)
        self._each(ExposedTool.gemini, reasons)
        return reasons

    def openai(self, *, strict: bool = False, api: OpenAIApi = "chat") -> list[dict[str, Any]]:
        """Return the tools in OpenAI's format: for Chat Completions, or for Responses.

        With ``strict``, a tool whose schema cannot be strict has ``"strict": false``.
        """
        if api not in ("chat", "responses"):
            raise ValueError(f"`api` is 'chat' or 'responses', not {api!r}.")
        return self._each(lambda it: it.openai(strict=strict, api=api))

    def anthropic(self) -> list[dict[str, Any]]:
        """Return the tools in Anthropic's format."""
        return self._each(ExposedTool.anthropic)

    def gemini(self) -> list[dict[str, Any]]:
        """Return the tools in Gemini's format, as ``function_declarations``."""
        return self._each(ExposedTool.gemini)

    def functions(self, *, raw: bool = False) -> list[Callable[..., Coroutine[Any, Any, Any]]]:
        """Return the tools as coroutine functions with real names, docstrings and signatures.

        They return the tool's value and raise `ToolExecutionError` when it reports a failure; with
        ``raw``, they return the `ToolResult`.
        """

        def build(it: ExposedTool) -> Callable[..., Coroutine[Any, Any, Any]]:
            def call(arguments: dict[str, Any]) -> Coroutine[Any, Any, ToolResult]:
                return self._call(self._view.find_again(it), arguments)

            return build_function(self._function_name(it), it, call=call, raw=raw)

        return self._each(build)

    def sync_functions(self, *, raw: bool = False) -> list[Callable[..., Any]]:
        """Return the tools as blocking functions, for agents that are not asynchronous."""

        def build(it: ExposedTool) -> Callable[..., Any]:
            def call(arguments: dict[str, Any]) -> ToolResult:
                instead = "take the tools as `functions()` and `await` them"
                return self._call_sync(self._view.find_again(it), arguments, instead=instead)

            return build_sync_function(self._function_name(it), it, call=call, raw=raw)

        return self._each(build)

    def langchain(self) -> "list[StructuredTool]":
        """Return the tools for LangChain and LangGraph; they can be invoked and awaited.

        A failed call is a ``ToolException``, which LangChain passes to the model as text.

        Raises:
            ImportError: when the extra ``langchain`` is not installed.
        """
        with _needs("langchain_core", extra="langchain", method="langchain"):
            from pegboard.toolsets.frameworks.langchain import (  # noqa: PLC0415 - an extra
                structured_tools,
            )
        return structured_tools(self._agent_tools("call `await tool.ainvoke(...)`"))

    def pydantic_ai(self) -> "AbstractToolset[Any]":
        """Return this view as a toolset of pydantic-ai, which always offers the current tools.

        A failed call is a ``ModelRetry`` where the model can mend it, and otherwise ``ToolFailed``.

        Raises:
            ImportError: when the extra ``pydantic-ai`` is not installed.
        """
        with _needs("pydantic_ai", extra="pydantic-ai", method="pydantic_ai"):
            from pegboard.toolsets.frameworks.pydantic_ai import (  # noqa: PLC0415 - an extra
                PydanticAIToolset,
            )
        return PydanticAIToolset(self._agent_tools, call=self.call)

    def openai_agents(self) -> "list[OpenAIFunctionTool]":
        """Return the tools for the OpenAI Agents SDK.

        A failed call returns its error as text, for the model.

        Raises:
            ImportError: when the extra ``openai-agents`` is not installed.
        """
        with _needs("agents", extra="openai-agents", method="openai_agents"):
            from pegboard.toolsets.frameworks.openai_agents import (  # noqa: PLC0415 - an extra
                function_tools,
            )
        return function_tools(self._agent_tools())

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> ToolResult:
        """Call a tool of the view by its name here, or by the name a provider was given for it.

        The tool's own schema checks the arguments. An optional argument that is null but must not
        be counts as left out.

        Raises:
            ToolNotFoundError: when the view has no such tool.
            CallRefusedError: when a policy refuses the call.
            ToolTimeoutError: when its deadline passed.
        """
        return await self._call(self._view.find(name), arguments, meta)

    def call_sync(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> ToolResult:
        """Call a tool of the view and wait for it in this thread; otherwise like `call`.

        Raises:
            ToolNotFoundError: when the view has no such tool.
            CallRefusedError: when a policy refuses the call.
            ToolTimeoutError: when its deadline passed.
        """
        instead = "use `await tools.call(...)`"
        return self._call_sync(self._view.find(name), arguments, meta, instead=instead)

    async def _call(
        self, exposed: ExposedTool, arguments: object, meta: Mapping[str, Any] | None = None
    ) -> ToolResult:
        given = exposed.arguments(arguments)
        return ToolResult.of(await self._registry.acall(exposed.source.name, given, meta))

    def _call_sync(
        self,
        exposed: ExposedTool,
        arguments: object,
        meta: Mapping[str, Any] | None = None,
        *,
        instead: str,
    ) -> ToolResult:
        given = exposed.arguments(arguments)
        try:
            return ToolResult.of(self._registry.call(exposed.source.name, given, meta))
        except WouldDeadlockError as error:
            if error.tool != exposed.source.name:
                raise
            raise _would_block(error.tool, instead) from None

    def _agent_tools(self, instead: str = "use `call`") -> list[AgentTool]:
        def call(it: ExposedTool, given: object) -> Coroutine[Any, Any, ToolResult]:
            return self._call(self._view.find_again(it), given)

        def call_sync(it: ExposedTool, given: object) -> ToolResult:
            return self._call_sync(self._view.find_again(it), given, instead=instead)

        return self._each(lambda it: AgentTool.of(it, call=call, call_sync=call_sync))

    def _function_name(self, exposed: ExposedTool) -> str:
        name = self._function_names.assign("", exposed.tool.name)
        assert name is not None, "a table that renames leaves no tool out"
        return name

    def _each(
        self, build: Callable[[ExposedTool], T], reasons: dict[str, str] | None = None
    ) -> list[T]:
        built: list[T] = []
        for name, exposed in self._view.tools.items():
            try:
                built.append(build(exposed))
            except DialectError as error:
                reason = str(error)
            except Exception as error:
                # One unforeseen schema must not cost the caller all other tools.
                logger.exception("tool_skipped: tool=%r", name)
                reason = f"{type(error).__name__}: {error}"
            else:
                continue
            if reasons is not None:
                reasons[name] = reason
        return built


@contextmanager
def _needs(package: str, *, extra: str, method: str) -> Generator[None]:
    """Name the extra that brings a package, where it cannot be imported."""
    try:
        yield
    except ImportError as error:
        # Another package may have the same name, so it may also lack only a name of ours.
        if (error.name or "").partition(".")[0] != package:
            raise
        raise ImportError(
            f"`toolset.{method}()` needs the extra {extra!r}: run `{install_extra(extra)}`. "
            f"({error})",
            name=error.name,
        ) from error


def _would_block(tool: str, instead: str) -> WouldDeadlockError:
    error = WouldDeadlockError(tool)
    error.args = (
        f"Tool {tool!r} was not called: waiting for it here would block the event loop that has to "
        f"run it. In asynchronous code, {instead}; programs without an event loop open their hub "
        "with `Hub.open_sync`.",
    )
    return error
