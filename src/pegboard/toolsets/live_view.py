"""LiveView: the tools that a toolset shows now, by name, with their definitions for providers."""

import logging
from collections.abc import Callable, Collection, Iterable
from operator import is_
from typing import Any, NamedTuple

import msgspec

from pegboard.errors import PegboardError, ToolConflictError, ToolNotFoundError
from pegboard.model import Tool
from pegboard.model.fork_guard import GuardedLock
from pegboard.model.lazy import LazyProperty
from pegboard.model.tool_names import NameTable, legal_name, nearest_names
from pegboard.registry import Registry
from pegboard.toolsets.combining import Schema
from pegboard.toolsets.dialect import root_object
from pegboard.toolsets.gemini import gemini_definition
from pegboard.toolsets.model_arguments import (
    ANY_LEGAL,
    IDENTIFIERS,
    aliases_of,
    drop_forbidden_nulls,
    rename_properties,
    restore_names,
)
from pegboard.toolsets.openai import OpenAIApi, openai_definition
from pegboard.toolsets.references import inline
from pegboard.toolsets.selection import View

__all__ = ["ExposedTool", "LiveView", "WhyMissing"]


class ExposedTool:
    """A tool under the name of a view; everything about it is worked out once, when asked for."""

    def __init__(self, source: Tool, tool: Tool, *, provider_name: str) -> None:
        self.source: Tool = source
        """As the registry has it."""
        self.tool: Tool = tool
        """As the view shows it."""
        self.provider_name: str = provider_name
        """A name that every provider takes."""
        self._written: dict[object, bytes] = {}

    def openai(self, *, strict: bool, api: OpenAIApi) -> dict[str, Any]:
        """Return the definition for OpenAI.

        Raises:
            DialectError: when the schema cannot be expressed for any provider.
        """
        return self._definition(
            ("openai", strict, api),
            lambda: openai_definition(
                *self.words, parameters=self.parameters, strict=strict, api=api
            ),
        )

    def anthropic(self) -> dict[str, Any]:
        """Return the definition for Anthropic.

        Raises:
            DialectError: when the schema cannot be expressed for any provider.
        """
        # https://platform.claude.com/docs/en/agents-and-tools/tool-use/implement-tool-use; the API
        # also refuses alternatives at the root, references, and unusual property names.
        name, description = self.words
        return self._definition(
            "anthropic",
            lambda: {"name": name, "description": description, "input_schema": self.parameters},
        )

    def gemini(self) -> dict[str, Any]:
        """Return the definition for Gemini.

        Raises:
            DialectError: when the schema cannot be expressed for any provider.
        """
        return self._definition(
            "gemini", lambda: gemini_definition(*self.words, parameters=self._gemini_parameters)
        )

    def arguments(self, given: Any) -> Any:
        """Return arguments as the tool itself takes them: original names, no needless nulls."""
        if self._originals:
            try:
                given = restore_names(given, self._originals)
            except RecursionError:
                return given
        return drop_forbidden_nulls(given, self._inlined, original=self.source.input_schema)

    @LazyProperty
    def parameters(self) -> Schema:
        """The schema as one object, without references, under names OpenAI and Anthropic take."""
        return root_object(rename_properties(self._inlined, self._aliases))

    @LazyProperty
    def root(self) -> Schema:
        """The schema as one object, without references, under the original names."""
        return root_object(self._inlined)

    @LazyProperty
    def _inlined(self) -> Schema:
        return inline(self.source.input_schema)

    @LazyProperty
    def _aliases(self) -> dict[str, str]:
        return aliases_of(self._inlined, ANY_LEGAL)

    @LazyProperty
    def _gemini_aliases(self) -> dict[str, str]:
        return aliases_of(self._inlined, IDENTIFIERS)

    @property
    def _gemini_parameters(self) -> Schema:
        return root_object(rename_properties(self._inlined, self._gemini_aliases))

    @LazyProperty
    def _originals(self) -> dict[str, str]:
        aliases = {**self._aliases, **self._gemini_aliases}
        return {alias: name for name, alias in aliases.items()}

    @property
    def words(self) -> tuple[str, str]:
        """The name and the description for providers."""
        tool = self.tool
        words = tool.description or tool.annotations.title or tool.name
        # A lone surrogate cannot be sent to any provider.
        return self.provider_name, words.encode("utf-8", "replace").decode("utf-8")

    def _definition(self, key: object, build: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        written = self._written.get(key)
        if written is None:
            # Cached as text, so that every caller gets its own definition to change.
            written = self._written[key] = msgspec.json.encode(build())
        return msgspec.json.decode(written)


logger: logging.Logger = logging.getLogger("pegboard.toolsets")

# Gemini wants a letter or an underscore first; the others do not mind.
_NOT_FIRST = tuple("-0123456789")

WhyMissing = Callable[[ToolNotFoundError, str], PegboardError]
"""Returns the error to raise for a missing tool, by its name in the registry."""


class _Moment(NamedTuple):
    """What there was to see at one time, as one value: threads never see half of a change."""

    seen: tuple[Tool, ...]
    by_name: dict[str, ExposedTool]
    by_source: dict[str, ExposedTool]
    left_out: dict[str, str]


class LiveView:
    """Follows a registry, and shows its tools as the views do, each applied to the one before.

    The names of the view are its own: a name made for a provider never stands in the way of one.
    Two tools under one name are refused at the first look. Later on the tool that has the name
    keeps it, because a newcomer must not break what was handed out.
    """

    def __init__(
        self, registry: Registry, views: tuple[View, ...], *, why_missing: WhyMissing | None = None
    ) -> None:
        self._registry = registry
        self.why_missing: WhyMissing | None = why_missing
        self.views: tuple[View, ...] = views
        self._latest: _Moment | None = None
        self._names: Collection[str] = ()
        # Names a model was given stay valid while a conversation lasts, whatever comes or goes.
        self._provider_names = NameTable(
            lambda _, name: _first_letter(name), taken=lambda name: name in self._names
        )
        # Re-entrant, because a view is free to look at another, or at this one.
        self._lock = GuardedLock("toolset")

    @property
    def tools(self) -> dict[str, ExposedTool]:
        """The tools by the names of the view.

        Raises:
            ToolConflictError: at the first look, when two tools would have the same name.
        """
        return self._now().by_name

    @property
    def left_out(self) -> dict[str, str]:
        """The tools that came later and want a name of another: names in the registry, reasons."""
        return self._now().left_out

    def find(self, name: object) -> ExposedTool:
        """Return the tool that has this name here, or else the one a provider knows under it.

        Raises:
            ToolNotFoundError: when there is none, or what ``why_missing`` makes of it.
        """
        tools = self.tools
        if isinstance(name, str):
            if name in tools:
                return tools[name]
            if name in self._provider_names:
                _, own = self._provider_names.origin(name)
                if own in tools:
                    return tools[own]
        raise self._missing(name, str(name), tools)

    def find_again(self, exposed: ExposedTool) -> ExposedTool:
        """Return the same tool as it is now.

        Raises:
            ToolNotFoundError: when the view does not show it any more, or what ``why_missing``
                makes of it.
        """
        now = self._now()
        again = now.by_source.get(exposed.source.name)
        if again is None:
            raise self._missing(exposed.tool.name, exposed.source.name, now.by_name)
        return again

    def _missing(self, name: object, source: str, there: Iterable[str]) -> PegboardError:
        error = ToolNotFoundError(name, nearest=nearest_names(name, there))
        return error if self.why_missing is None else self.why_missing(error, source)

    def _now(self) -> _Moment:
        latest = self._latest
        there = self._registry.tools()
        if latest is None or not _are_the_same(latest.seen, there):
            with self._lock:
                latest = self._latest = self._look(there, self._latest)
        return latest

    def _look(self, there: tuple[Tool, ...], before: _Moment | None) -> _Moment:
        known = before.by_source if before else {}
        shown = [(source, self._show(source, known.get(source.name))) for source in there]
        pairs = [(source, tool) for source, tool in shown if tool is not None]
        holders = _holders(pairs, before.by_name if before else {})
        self._names = holders
        by_name: dict[str, ExposedTool] = {}
        left_out: dict[str, str] = {}
        for source, tool in pairs:
            holder = holders[tool.name]
            if holder is source:
                by_name[tool.name] = self._expose(source, tool, known.get(source.name))
            elif before is None:
                raise _conflict(tool.name, holder, source)
            else:
                left_out[source.name] = f"its name here, {tool.name!r}, is that of {holder.name!r}"
                if source.name not in before.left_out:
                    logger.warning("tool_skipped: %s; tool=%r", left_out[source.name], source.name)
        by_source = {exposed.source.name: exposed for exposed in by_name.values()}
        return _Moment(there, by_name, by_source, left_out)

    def _show(self, source: Tool, known: ExposedTool | None) -> Tool | None:
        if known is not None and known.source is source:
            return known.tool
        # A toolset is for a model, which is not offered what only apps call.
        shown: Tool | None = None if source.app_only else source
        for view in self.views:
            shown = None if shown is None else view(shown)
        return shown

    def _expose(self, source: Tool, tool: Tool, known: ExposedTool | None) -> ExposedTool:
        name = self._provider_name(tool.name)
        if known is not None and known.source is source and known.provider_name == name:
            return known
        return ExposedTool(source, tool, provider_name=name)

    def _provider_name(self, name: str) -> str:
        if legal_name(_first_letter(name), ("", name)) == name:
            return name
        if self._provider_names.exposed("", name) in self._names:
            self._provider_names.release("", name)
        given = self._provider_names.assign("", name)
        assert given is not None, "a table that renames leaves no tool out"
        return given


def _are_the_same(some: tuple[Tool, ...], others: tuple[Tool, ...]) -> bool:
    return len(some) == len(others) and all(map(is_, some, others))


def _holders(pairs: Iterable[tuple[Tool, Tool]], before: dict[str, ExposedTool]) -> dict[str, Tool]:
    """Return whose each name is: of the tool that had it, or else of the first that wants it."""
    holders: dict[str, Tool] = {}
    for source, tool in pairs:
        had = before.get(tool.name)
        if tool.name not in holders or (had is not None and had.source.name == source.name):
            holders[tool.name] = source
    return holders


def _first_letter(name: str) -> str:
    return f"_{name}" if name.startswith(_NOT_FIRST) else name


def _conflict(name: str, first: Tool, second: Tool) -> ToolConflictError:
    error = ToolConflictError(name)
    error.args = (
        f"Two tools of this view would be named {name!r}: {first.name!r} and {second.name!r}. "
        "Rename one of them, or leave it out with `exclude`.",
    )
    return error
