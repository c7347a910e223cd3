"""Toolset: a chosen, renamed view of a registry, in the form an agent or a provider wants."""

import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping
from operator import is_
from typing import Any, TypeVar, Unpack

from pegboard.errors import ToolConflictError, ToolNotFoundError
from pegboard.model import Tool, ToolResult
from pegboard.model.names import nearest_names
from pegboard.model.naming import NameTable
from pegboard.registry import Registry
from pegboard.toolsets.dialect import DialectError
from pegboard.toolsets.exposed import ExposedTool
from pegboard.toolsets.functions import (
    build_function,
    build_sync_function,
    function_name,
)
from pegboard.toolsets.openai import OpenAIApi
from pegboard.toolsets.selection import Selection, View, compile_selection

__all__ = ["Toolset"]

logger: logging.Logger = logging.getLogger("pegboard.toolsets")

T = TypeVar("T")


class Toolset:
    """A view of a registry: it always shows the tools that are there now.

    Args:
        registry: where the tools are, and where they are called.
        selection: which tools, and under which names; see `Selection`.

    Raises:
        TypeError: when the selection is malformed.
    """

    def __init__(self, registry: Registry, **selection: Unpack[Selection]) -> None:
        self._registry = registry
        self._views: tuple[View, ...] = (compile_selection(selection),)
        # One value, so that threads never see the tools of one moment with those of another.
        self._latest: tuple[tuple[Tool, ...], dict[str, ExposedTool]] = ((), {})
        # Names a model was given stay valid while a conversation lasts, whatever comes or goes.
        self._provider_names = NameTable(_provider_name)
        self._function_names = NameTable(lambda _, tool: function_name(tool))

    def select(self, **more: Unpack[Selection]) -> "Toolset":
        """Return a narrower view of this one; patterns and new names apply to the names here."""
        narrower = Toolset(self._registry, **more)
        narrower._views = (*self._views, *narrower._views)
        return narrower

    def tools(self) -> tuple[Tool, ...]:
        """Return the definitions, under the names of the view.

        Raises:
            ToolConflictError: when two tools would have the same name.
        """
        return tuple(exposed.tool for exposed in self._current().values())

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the view."""
        return tuple(self._current())

    def __len__(self) -> int:
        return len(self._current())

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.tools())

    def __contains__(self, name: object) -> bool:
        return name in self._current()

    def __repr__(self) -> str:
        return f"<Toolset of {len(self)} tools>"

    @property
    def skipped(self) -> Mapping[str, str]:
        """The tools that no provider could be given, and why."""
        reasons: dict[str, str] = {}
        self._each(lambda it: it.openai(strict=True, api="chat"), reasons)
        self._each(ExposedTool.anthropic, reasons)
        self._each(ExposedTool.gemini, reasons)
        return reasons

    def openai(self, *, strict: bool = False, api: OpenAIApi = "chat") -> list[dict[str, Any]]:
        """Return the tools as OpenAI takes them: for Chat Completions, or for Responses.

        With ``strict``, tools whose schema cannot be strict are given with ``"strict": false``.
        """
        if api not in ("chat", "responses"):
            raise ValueError(f"`api` is 'chat' or 'responses', not {api!r}.")
        return self._each(lambda it: it.openai(strict=strict, api=api))

    def anthropic(self) -> list[dict[str, Any]]:
        """Return the tools as Anthropic takes them."""
        return self._each(ExposedTool.anthropic)

    def gemini(self) -> list[dict[str, Any]]:
        """Return the tools as Gemini takes them, as ``function_declarations``."""
        return self._each(ExposedTool.gemini)

    def functions(self, *, raw: bool = False) -> list[Callable[..., Coroutine[Any, Any, Any]]]:
        """Return the tools as coroutine functions with real names, docstrings and signatures.

        They return the tool's value and raise `ToolExecutionError` when it reports a failure; with
        ``raw``, they return the `ToolResult`.
        """

        def build(it: ExposedTool) -> Callable[..., Coroutine[Any, Any, Any]]:
            return build_function(self._function_name(it), it, call=self.call, raw=raw)

        return self._each(build)

    def sync_functions(self, *, raw: bool = False) -> list[Callable[..., Any]]:
        """Return the tools as blocking functions, for agents that are not asynchronous."""

        def build(it: ExposedTool) -> Callable[..., Any]:
            return build_sync_function(self._function_name(it), it, call=self.call_sync, raw=raw)

        return self._each(build)

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> ToolResult:
        """Call a tool of the view by its name here, or by the name a provider was given for it.

        Arguments are checked by the tool's own schema. An optional one that is null though it may
        not be counts as left out.

        Raises:
            ToolNotFoundError: when the view has no such tool.
            CallRefusedError: when a policy refuses the call.
            ToolTimeoutError: when its deadline passed.
        """
        exposed = self._find(name)
        given = exposed.arguments(arguments)
        return ToolResult.of(await self._registry.acall(exposed.source.name, given, meta))

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
        exposed = self._find(name)
        given = exposed.arguments(arguments)
        return ToolResult.of(self._registry.call(exposed.source.name, given, meta))

    def _find(self, name: object) -> ExposedTool:
        current = self._current()
        if isinstance(name, str):
            if name in self._provider_names:
                _, name = self._provider_names.origin(name)
            exposed = current.get(name)
            if exposed is not None:
                return exposed
        raise ToolNotFoundError(name, nearest=nearest_names(name, current))

    def _current(self) -> dict[str, ExposedTool]:
        seen, exposed = self._latest
        there = self._registry.tools()
        if len(seen) != len(there) or not all(map(is_, seen, there)):
            exposed = self._look(there, exposed)
            self._latest = (there, exposed)
        return exposed

    def _look(
        self, there: tuple[Tool, ...], before: dict[str, ExposedTool]
    ) -> dict[str, ExposedTool]:
        known = {id(it.source): it for it in before.values()}
        exposed: dict[str, ExposedTool] = {}
        for source in there:
            one = known.get(id(source)) or self._expose(source)
            if one is None:
                continue
            other = exposed.setdefault(one.tool.name, one)
            if other is not one:
                raise _conflict(one.tool.name, other.source, source)
        return exposed

    def _expose(self, source: Tool) -> ExposedTool | None:
        shown: Tool | None = source
        for view in self._views:
            shown = None if shown is None else view(shown)
        if shown is None:
            return None
        name = _assigned(self._provider_names, shown.name)
        return ExposedTool(source, shown, provider_name=name)

    def _function_name(self, exposed: ExposedTool) -> str:
        return _assigned(self._function_names, exposed.tool.name)

    def _each(
        self, build: Callable[[ExposedTool], T], reasons: dict[str, str] | None = None
    ) -> list[T]:
        built: list[T] = []
        for name, exposed in self._current().items():
            try:
                built.append(build(exposed))
            except DialectError as error:
                reason = str(error)
            except Exception as error:
                # One schema that nobody foresaw must not cost a caller all the others.
                logger.exception("tool_skipped: tool=%r", name)
                reason = f"{type(error).__name__}: {error}"
            else:
                continue
            if reasons is not None:
                reasons[name] = reason
        return built


def _provider_name(_: str, name: str) -> str:
    # Gemini wants a letter or an underscore first; the others do not mind.
    return f"_{name}" if name[0] in "-0123456789" else name


def _assigned(table: NameTable, name: str) -> str:
    given = table.assign("", name)
    assert given is not None, "a table that renames leaves nobody out"
    return given


def _conflict(name: str, first: Tool, second: Tool) -> ToolConflictError:
    error = ToolConflictError(name)
    error.args = (
        f"Two tools of this view would be named {name!r}: {first.name!r} and {second.name!r}. "
        "Rename one of them, or leave it out with `exclude`.",
    )
    return error
