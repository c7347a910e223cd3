"""CatalogFeed: register the listed tools of one server in the registry, and unregister others."""

import hashlib
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from time import monotonic
from typing import Any, cast

import msgspec

from pegboard.config import ServerConfig
from pegboard.errors import InvalidToolError, PegboardError, ToolConflictError
from pegboard.model import Step, Tool
from pegboard.model.garbage_collection import postponed_collections
from pegboard.model.hidden_characters import is_plain_json, visible_definition
from pegboard.model.json_values import object_in
from pegboard.model.tool_names import NameTable, OnConflict, name_matcher, nearest_names
from pegboard.policies import PolicyOptions
from pegboard.registry import BoundTool, Registry
from pegboard.upstream.catalog.offline_catalog import (
    annotations_of,
    is_usable,
    lazy_tool_of,
    permission_of,
)
from pegboard.upstream.events import ChangedDefinition, DefinitionsChanged
from pegboard.upstream.messages.nesting_limit import MOST_LEVELS, TOO_DEEP

__all__ = ["CatalogFeed", "Steps", "tool_of"]

logger: logging.Logger = logging.getLogger("pegboard.upstream")

GivenName = tuple[str, str]
"""The name that a tool should have had, and the one that it got because that was taken."""
_TAKEN = "its name is taken by another tool"
_OVERRIDDEN = "another tool has taken its place"
_TASK_SUPPORT = ("optional", "required")
_HELD_BY_TOOLS = frozenset({"name", "description", "inputSchema", "outputSchema"})

MOST_DEFINITION_BYTES = 256 * 1024
"""The largest definition of a tool: each search and each list of tools has to do with it."""
MOST_TOLD = 20
"""How many changed definitions of a server are named in a minute; the rest is one number.

A server that changes all the time must not push other records out of the log and the audit.
"""
_MINUTE = 60.0
MOST_GONE = 10_000
"""How many tools are remembered that a server does not list any more."""
_sorted = msgspec.json.Encoder(order="sorted")

Steps = Callable[[str, Tool], Step]
"""Returns the step that calls a tool of the server, by its original name."""


class CatalogFeed:
    """The tools of one server on the board, and the ones that were left out, with reasons."""

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
        """Tools that were not put on the board, and why; by original name."""
        self.invalid: set[str] = set()
        """The tools whose definition is invalid."""
        self.contested: dict[str, Mapping[str, Any]] = {}
        """The definitions of tools whose name another tool has."""
        self.warnings: tuple[str, ...] = ()
        """What the user should check: patterns that no tool matches."""
        self._extras: dict[str, Mapping[str, Any]] = {}
        self.task_support: Mapping[str, str] = {}
        """The tools whose calls may or must be tasks in the handshake era: which of the two."""
        self._config = config
        self._registry = registry
        self._names = names
        self._steps = steps
        self._policies = policies
        self._on_conflict: OnConflict = "override" if on_conflict == "override" else "skip"
        self._renames = on_conflict == "rename"
        self._filtered: list[str] = []
        self.conflict: ToolConflictError | None = None
        """The first name conflict, if conflicts are to be raised."""
        self._permits = permission_of(config)
        self._retired = False
        self._changing = threading.Lock()
        self._accepts: dict[str, Mapping[str, Any]] = {}
        """The true input schemas of tools that are shown with escapes."""
        self._digests: dict[str, str] = {}
        """By original name: the digest of each definition as the server sent it last."""
        self._changes: DefinitionsChanged | None = None
        self._minute = -_MINUTE
        self._named = self._unnamed = 0
        self._has_counted = False

    def apply(
        self,
        listed: Iterable[Mapping[str, Any]],
        *,
        names: Mapping[str, GivenName] | None = None,
        checked: bool = False,
    ) -> None:
        """Make the board show exactly the listed tools, in one change.

        Args:
            listed: definitions in the form of the protocol.
            names: names that were changed in an earlier run; they count only if conflicts are
                still solved by renaming.
            checked: the definitions were on the board before, so their schemas are valid.
        """
        try:
            with self._changing:
                # Otherwise the list came after the server was removed.
                if not self._retired:
                    listed = list(listed)
                    with postponed_collections(len(listed)):
                        digests: dict[str, str] = {}
                        self._accepts = {}
                        shown = [self._shown(raw, digests) for raw in listed]
                        self._note_changes(digests)
                        self._apply(shown, names=names, checked=checked)
                    self._warn_of_patterns(listed)
        finally:
            if self._retired:
                self.retire()

    def retire(self) -> None:
        """Take all tools of the server off the board for good, in one change.

        It never waits: a list that a thread is just putting on the board is removed by that
        thread.
        """
        self._retired = True
        if self._changing.acquire(blocking=False):
            try:
                self._clear()
            finally:
                self._changing.release()

    def borrow(self, other: "CatalogFeed") -> None:
        """Show the tools of the server that this one replaces, as far as they are allowed here.

        Its own list, or `clear`, takes them off the board.
        """
        listed = [raw for it in list(other.tools) if (raw := other.definition(it)) is not None]
        names = other.changed_names()
        other.retire()
        with self._changing:
            if not self._retired:
                self._accepts = {**other._accepts}
                self._digests = {**other._digests}
                self._apply(listed, names=names, checked=True)

    def clear(self) -> None:
        """Take all tools off the board for now."""
        with self._changing:
            self._clear()

    def take_changes(self) -> DefinitionsChanged | None:
        """Return the definitions that have changed since they were last seen, once."""
        changes, self._changes = self._changes, None
        return changes

    def _shown(self, raw: Mapping[str, Any], digests: dict[str, str]) -> Mapping[str, Any]:
        """Return a definition as models and people see it, and note the digest of the true one."""
        name = _name_of(raw)
        if name is None:
            return raw
        text = _canonical(raw)
        shown = raw if is_plain_json(text) else visible_definition(raw)
        # Of a tool that is listed twice the first counts.
        if name not in digests:
            digests[name] = hashlib.sha256(text).hexdigest()
            schema: object = raw.get("inputSchema")
            if shown is not raw and isinstance(schema, Mapping):
                self._accepts[name] = cast("Mapping[str, Any]", schema)
        return shown

    def _note_changes(self, digests: dict[str, str]) -> None:
        """Log the definitions that are others than when they were last seen."""
        known, server = self._digests, self._config.name
        # A tool that was away and comes back is compared, too; the oldest of those are forgotten.
        gone = {it: digest for it, digest in known.items() if it not in digests}
        self._digests = dict(islice(gone.items(), max(0, len(gone) - MOST_GONE), None)) | digests
        changed = [it for it, digest in digests.items() if known.get(it, digest) != digest]
        if not changed:
            return
        room, more = self._room_for(len(changed))
        told = tuple(
            ChangedDefinition(it, before=known[it], after=digests[it]) for it in changed[:room]
        )
        if not told and not more:
            return
        self._changes = DefinitionsChanged(server, told, more)
        for it in told:
            context = {"server": server, "tool": it.tool, "before": it.before, "after": it.after}
            logger.warning(
                "definition_changed: %r of server %r, from sha256:%s to sha256:%s",
                *(it.tool, server, it.before, it.after),
                extra=context,
            )
        if more:
            words = "definition_changed: %d more of server %r"
            logger.warning(words, more, server, extra={"server": server, "tools": more})

    def _room_for(self, changed: int) -> tuple[int, int]:
        """Return how many changes are named now, and how many are only counted."""
        now = monotonic()
        if now - self._minute >= _MINUTE:
            self._minute, self._named, self._has_counted = now, 0, False
        room = min(changed, MOST_TOLD - self._named)
        self._named += room
        self._unnamed += changed - room
        more = 0 if self._has_counted else self._unnamed
        if more:
            self._unnamed, self._has_counted = 0, True
        return room, more

    def _clear(self) -> None:
        self.contested = {}
        self._register({}, {}, checked=True)

    def _apply(
        self,
        listed: Sequence[Mapping[str, Any]],
        *,
        names: Mapping[str, GivenName] | None,
        checked: bool,
    ) -> None:
        wanted: dict[str, Tool] = {}
        left_out: dict[str, str] = {}
        self.contested = {}
        self._filtered = []
        for raw in listed:
            original = _name_of(raw)
            if original is None or original in wanted or original in left_out:
                label = "a tool without a name" if original is None else f"{original} (again)"
                left_out[label] = "every tool needs a name of its own"
                continue
            try:
                tool = self._tool_for(original, raw, (names or {}).get(original), checked=checked)
            except (PegboardError, TypeError, ValueError) as error:
                if isinstance(error, ToolConflictError):
                    self.conflict = self.conflict or error
                left_out[original] = str(error)
                continue
            if tool is not None:
                wanted[original] = tool
        self._extras = {
            name: rest
            # Of a tool that is listed twice the first counts.
            for raw in reversed(listed)
            if (name := _name_of(raw)) in wanted and (rest := _rest_of(raw))
        }
        self.task_support = {
            name: support
            for name, rest in self._extras.items()
            if (support := object_in(rest.get("execution")).get("taskSupport")) in _TASK_SUPPORT
        }
        self._register(wanted, left_out, checked=checked)

    def on_board(self) -> int:
        """Count the tools that are on the board; other tools may have overridden some."""
        found = self._found()
        return sum(found.get(tool.name) is tool for tool in self.tools.values())

    def missing(self) -> dict[str, str]:
        """Return the tools that are not on the board, and why; by original name."""
        found, tools = self._found(), self.tools
        lost = {it: _OVERRIDDEN for it, tool in tools.items() if found.get(tool.name) is not tool}
        return {**self.left_out, **lost}

    def _found(self) -> dict[str, Tool]:
        # All at once: there may be 100,000 of them, and a status is read on the event loop.
        return self._registry.get_many(tool.name for tool in self.tools.values())

    def may_gain(self) -> bool:
        """Tell whether to list the server again once other servers have freed their names."""
        return bool(self.contested) or any(self._is_off_board(it) for it in self.tools.values())

    def filtered(self) -> set[str]:
        """Return the names that tools would have if ``allow`` and ``deny`` did not forbid them."""
        names: set[str] = set()
        for original in self._filtered:
            # A custom naming policy need not have a name for a filtered tool.
            with suppress(PegboardError):
                names.add(self._names.policy_name(self._config.name, original))
        return names

    def is_cacheable(self, raw: object) -> bool:
        """Tell whether a definition is worth caching: invalid ones are not."""
        name = _name_of(raw)
        return name is not None and name not in self.invalid

    def definition(self, original: str) -> dict[str, Any] | None:
        """Return a tool on the board as the server defines it, with all its fields."""
        tool = self.tools.get(original)
        if tool is None:
            return None
        raw: dict[str, Any] = {"name": original, "inputSchema": tool.input_schema}
        if tool.description:
            raw["description"] = tool.description
        if tool.output_schema is not None:
            raw["outputSchema"] = tool.output_schema
        return {**raw, **self._extras.get(original, {})}

    def changed_names(self) -> dict[str, GivenName]:
        """Return the tools that got another name than they should have, for the cache."""
        should = {it: self._names.policy_name(self._config.name, it) for it in self.tools}
        return {
            it: (should[it], tool.name)
            for it, tool in self.tools.items()
            if tool.name != should[it]
        }

    def _tool_for(
        self, original: str, raw: Mapping[str, Any], given: GivenName | None, *, checked: bool
    ) -> Tool | None:
        if not self._permits(original):
            self._filtered.append(original)
            return None
        server = self._config.name
        wanted = None
        if self._renames and given is not None:
            should, was = given
            wanted = was if should == self._names.policy_name(server, original) else None
        exposed = self._names.assign(server, original, wanted=wanted)
        if exposed is None:
            self.contested[original] = raw
            raise ValueError(_TAKEN)
        if checked and is_usable(raw):
            return lazy_tool_of(raw, exposed, self._config)
        size = len(msgspec.json.encode(raw))
        if size > MOST_DEFINITION_BYTES:
            raise InvalidToolError(
                f"The definition of tool {exposed!r} has {size} bytes; the most are "
                f"{MOST_DEFINITION_BYTES}."
            )
        return tool_of(raw, exposed, self._config)

    def _warn_of_patterns(self, listed: Sequence[Mapping[str, Any]]) -> None:
        """Warn about patterns that no tool matches: most likely they are misspelt."""
        names = [name for raw in listed if (name := _name_of(raw)) is not None]
        warnings = tuple(_useless_patterns(self._config, names))
        for warning in warnings:
            if warning not in self.warnings:
                context = {"server": self._config.name, "reason": warning}
                logger.warning("pattern_unused: %s", warning, extra=context)
        self.warnings = warnings

    def _holds(self, tool: Tool) -> bool:
        return tool.name in self._registry and self._registry.get(tool.name) is tool

    def _is_off_board(self, tool: Tool) -> bool:
        """Tell whether another tool had overridden it, and was removed."""
        return tool.name not in self._registry

    def _is_described(self, name: str) -> bool:
        return name in self._registry and not self._registry.runs(name)

    def _register(
        self, wanted: dict[str, Tool], left_out: dict[str, str], *, checked: bool
    ) -> None:
        before = self.tools
        # An unchanged tool stays the same object that is on the board.
        wanted = {it: before[it] if before.get(it) == tool else tool for it, tool in wanted.items()}
        fresh = {
            it: tool
            for it, tool in wanted.items()
            if before.get(it) is not tool or self._is_off_board(tool)
        }
        gone = [it for it in before if it not in wanted]
        report = self._registry.register_many(
            [
                BoundTool(
                    tool, self._steps(it, tool), checked=checked, accepts=self._accepts.get(it)
                )
                for it, tool in fresh.items()
            ],
            on_conflict=self._on_conflict,
            on_error="report",
            replacing=[
                # Only what is still ours: the application may have overridden a tool.
                *(
                    before[it].name
                    for it in (*gone, *fresh)
                    if it in before and self._holds(before[it])
                ),
                # A callable tool replaces one that is only described.
                *(tool.name for tool in fresh.values() if self._is_described(tool.name)),
            ],
            **self._policies,
        )
        originals = list(fresh)
        refused = {originals[it.index]: str(it.error) for it in report.rejected}
        self.invalid = set(refused)
        refused |= {self._names.origin(tool.name)[1]: _TAKEN for tool in report.skipped}
        # Only what the registry refused: the label of a nameless tool may be another's name.
        wanted = {it: tool for it, tool in wanted.items() if it not in refused}
        left_out |= refused
        for original in {*gone, *self.left_out, *left_out}:
            # A tool that waits for a name keeps waiting: released, it would take it next time.
            if original not in wanted and original not in self.contested:
                self._names.release(self._config.name, original)
        for original, reason in left_out.items():
            if self.left_out.get(original) != reason:
                context = {"server": self._config.name, "tool": original, "reason": reason}
                logger.warning(
                    "tool_left_out: %r of server %r: %s",
                    original,
                    self._config.name,
                    reason,
                    extra=context,
                )
        self.tools, self.left_out = wanted, left_out


def _name_of(raw: object) -> str | None:
    name = cast("Mapping[str, Any]", raw).get("name") if isinstance(raw, Mapping) else None
    return name if isinstance(name, str) else None


def _canonical(raw: Mapping[str, Any]) -> bytes:
    """Return a definition as JSON that does not depend on the order of its fields."""
    try:
        return _sorted.encode(raw)
    except (TypeError, ValueError, RecursionError):
        # A server in this process may list what JSON does not have.
        return repr(raw).encode("utf-8", "backslashreplace")


def _rest_of(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {field: value for field, value in raw.items() if field not in _HELD_BY_TOOLS}


def tool_of(raw: Mapping[str, Any], name: str, config: ServerConfig) -> Tool:
    """Return a server's definition as a `Tool`, under its exposed name.

    Raises:
        InvalidToolError: when the definition is invalid.
    """
    if TOO_DEEP in (raw.get("inputSchema"), raw.get("outputSchema")):
        raise InvalidToolError(
            f"A schema of tool {name!r} is nested too deeply: a server's answer is read to "
            f"{MOST_LEVELS} levels. Let the server give a flatter one, or a `$ref`."
        )
    return Tool(
        name=name,
        description=raw.get("description") or "",
        input_schema=raw.get("inputSchema") or {},
        output_schema=raw.get("outputSchema"),
        annotations=annotations_of(raw),
        server=config.name,
        tags=config.tags,
        category=config.category,
    )


def _useless_patterns(config: ServerConfig, names: list[str]) -> Iterator[str]:
    for option, patterns in (("allow", config.allow), ("deny", config.deny)):
        for pattern in patterns:
            matches = name_matcher(option, [pattern])
            if pattern == "*" or any(matches(name) for name in names):
                continue
            near = nearest_names(pattern, names, limit=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            yield f"No tool of server {config.name!r} matches {pattern!r} in its `{option}`.{hint}"
