"""CatalogFeed: keeps the board equal to what one server lists."""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import msgspec

from pegboard.config import ServerConfig
from pegboard.errors import PegboardError, ToolConflictError
from pegboard.model import Annotations, Step, Tool
from pegboard.model.names import name_matcher
from pegboard.model.naming import NameTable, OnConflict
from pegboard.policies import PolicyOptions
from pegboard.registry import BoundTool, Registry

__all__ = ["CatalogFeed", "Steps", "tool_of"]

logger: logging.Logger = logging.getLogger("pegboard.upstream")

Steps = Callable[[str, Tool], Step]
"""Gives the step that calls a tool of the server, by its original name."""


class CatalogFeed:
    """The tools of one server on the board: which, under which names, and which not and why."""

    def __init__(
        self,
        config: ServerConfig,
        *,
        registry: Registry,
        names: NameTable,
        steps: Steps,
        policies: PolicyOptions,
        on_conflict: OnConflict,
    ) -> None:
        self.tools: dict[str, Tool] = {}
        """The tools on the board, by original name."""
        self.left_out: dict[str, str] = {}
        """Tools that are not on the board, and why; by original name."""
        self._config = config
        self._registry = registry
        self._names = names
        self._steps = steps
        self._policies = policies
        self._on_conflict: OnConflict = "override" if on_conflict == "override" else "skip"
        self.conflict: ToolConflictError | None = None
        """The first conflict of names, where those are to be raised."""
        self._permits = _permission(config)

    def apply(
        self,
        listed: Iterable[Mapping[str, Any]],
        *,
        names: Mapping[str, str] | None = None,
        checked: bool = False,
    ) -> None:
        """Make the board show exactly the listed tools, in one change.

        Args:
            listed: definitions as the protocol has them.
            names: exposed names from an earlier run.
            checked: the definitions were on the board before, so their schemas are valid.
        """
        wanted: dict[str, Tool] = {}
        left_out: dict[str, str] = {}
        for raw in listed:
            original = raw.get("name")
            if not isinstance(original, str) or original in wanted:
                left_out[str(original)] = "it has no name, or that of another tool of the server"
                continue
            try:
                tool = self._understand(original, raw, (names or {}).get(original))
            except (PegboardError, TypeError, ValueError) as error:
                if isinstance(error, ToolConflictError):
                    self.conflict = self.conflict or error
                left_out[str(original)] = str(error)
                continue
            if tool is not None:
                wanted[original] = tool
        self._exchange(wanted, left_out, checked=checked)

    def clear(self) -> None:
        """Take all tools of the server off the board, in one change."""
        self._exchange({}, {}, checked=True)

    def _understand(self, original: str, raw: Mapping[str, Any], name: str | None) -> Tool | None:
        if not self._permits(original):
            return None
        prefix = self._config.prefix
        wanted = name if prefix is None or name is not None else prefix + original
        exposed = self._names.assign(self._config.name, original, wanted=wanted)
        if exposed is None:
            raise ValueError("its name is taken by another tool")
        return tool_of(raw, exposed, self._config)

    def _exchange(
        self, wanted: dict[str, Tool], left_out: dict[str, str], *, checked: bool
    ) -> None:
        before = self.tools
        fresh = {it: tool for it, tool in wanted.items() if before.get(it) != tool}
        gone = [it for it in before if it not in wanted]
        report = self._registry.register_many(
            [BoundTool(tool, self._steps(it, tool), checked=checked) for it, tool in fresh.items()],
            on_conflict=self._on_conflict,
            on_error="report",
            replacing=[before[it].name for it in (*gone, *fresh) if it in before],
            **self._policies,
        )
        originals = list(fresh)
        for rejection in report.rejected:
            left_out[originals[rejection.index]] = str(rejection.error)
        for tool in report.skipped:
            left_out[self._names.origin(tool.name)[1]] = "its name is taken by another tool"
        for original in left_out:
            wanted.pop(original, None)
        for original in (*gone, *left_out):
            self._names.release(self._config.name, original)
        for original, reason in left_out.items():
            if self.left_out.get(original) != reason:
                logger.warning(
                    "tool_left_out",
                    extra={"server": self._config.name, "tool": original, "reason": reason},
                )
        self.tools, self.left_out = wanted, left_out


def tool_of(raw: Mapping[str, Any], name: str, config: ServerConfig) -> Tool:
    """Return a server's definition as one of ours, under the name it is exposed by."""
    hints = cast("dict[str, Any]", raw.get("annotations") or {})
    try:
        annotations = msgspec.convert({"title": raw.get("title"), **hints}, Annotations)
    except msgspec.ValidationError:
        # Hints that make no sense are no reason to do without the tool.
        annotations = Annotations()
    return Tool(
        name=name,
        description=raw.get("description") or "",
        input_schema=raw.get("inputSchema") or {},
        output_schema=raw.get("outputSchema"),
        annotations=annotations,
        server=config.name,
        tags=config.tags,
        category=config.category,
    )


def _permission(config: ServerConfig) -> Callable[[str], bool]:
    allowed = name_matcher("allow", config.allow)
    denied = name_matcher("deny", config.deny)
    return lambda name: allowed(name) and not denied(name)
