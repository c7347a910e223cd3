"""Registry: register tools, describe and search them, and call them by name."""

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self, Unpack, cast

from pegboard.errors import (
    PegboardError,
    ToolNotFoundError,
    WouldDeadlockError,
)
from pegboard.model import ArgumentSchema, Step, Tally, Tool, ToolCall, Usage, freeze
from pegboard.model.call import NO_META, Phases
from pegboard.model.fork_guard import ForkGuard
from pegboard.model.tool_names import OnConflict, nearest_names
from pegboard.policies import (
    Observer,
    PolicyOptions,
    Telemetry,
    Validation,
    check_options,
)
from pegboard.registry.background_loop import on_background_loop, run_in_background
from pegboard.registry.batch import Batch, OnError, Registration, candidates_of
from pegboard.registry.candidate import Candidate, stored_candidate
from pegboard.registry.catalog import (
    Catalog,
    Entry,
    Subscriber,
    TakenNames,
    printable_name,
    refusal,
    without_one,
)
from pegboard.registry.functions.functions import RegisterDecorator
from pegboard.registry.groups import group_names
from pegboard.registry.implementation import run_inline
from pegboard.registry.persistence import Persistence
from pegboard.registry.searching import Searching
from pegboard.search import SearchEngine, Searcher, SearchOptions, SearchResponse
from pegboard.storage import Store

__all__ = ["Registry"]


class Registry:
    """Tools by name. Any number of threads and event loops may use it.

    Args:
        observers: the observers of each call. To keep arguments or results in the records, pass
            ``telemetry=Telemetry(observers, arguments=True)`` instead.
        policies: the policies around each call, for all tools that have none of their own.
            Validation and telemetry are on by default, the others are off.
        storage: where definitions and usage are stored: a URL or path as for `open_store`, or a
            store, which you close yourself. The definitions in it are on the board at once.
            Without it nothing is stored.

    A forked child of its process cannot use it: every method but `close` raises
    `ForkedProcessError` there.

    Raises:
        StorageError: when the storage cannot be opened or read.
    """

    def __init__(
        self,
        *,
        observers: Iterable[Observer] = (),
        storage: str | Path | Store | None = None,
        **policies: Unpack[PolicyOptions],
    ) -> None:
        check_options(policies)
        given = policies.get("telemetry", Telemetry())
        added = Telemetry(observers).observers
        if given is None and added:
            raise TypeError(
                "With `telemetry=None` no observer is told of calls: leave out one of the two."
            )
        # A copy, so that observers added later belong to this registry alone.
        self._telemetry = copy.copy(given or Telemetry())
        defaults: PolicyOptions = {"validation": Validation()}
        self._policies: PolicyOptions = {**defaults, **policies}
        self._policies["telemetry"] = self._telemetry if given is not None else None
        self._guard = ForkGuard("registry")
        self._catalog = Catalog()
        self._searching = Searching(self._catalog)
        self._telemetry.watch((*self._telemetry.observers, *added))
        self._persistence: Persistence | None = None
        if storage is not None:
            self.keep_in(storage)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def storage(self) -> Store | None:
        """The store of definitions and usage, if there is one."""
        return None if self._persistence is None else self._persistence.store

    def keep_in(self, storage: str | Path | Store) -> None:
        """Store definitions and usage from now on, and show what is stored there; blocks.

        Raises:
            StorageError: when the storage cannot be opened or read.
            RuntimeError: when this registry has a storage already.
        """
        self._guard.check()
        if self._persistence is not None:
            raise RuntimeError("This registry has a storage already; `close` it first.")
        self._persistence = Persistence(storage, self._catalog, self._stored_entry)
        self._searching.keep_with(self._persistence)
        self._catalog.deliver()
        if self._policies.get("telemetry") is not None:
            self._persistence.stop_counting = self.observe(self._persistence.counter)

    def close(self) -> None:
        """Write the remaining usage, close the storage, and take its definitions off the board.

        Functions stay on the board; what is registered from now on is not stored. In a forked child
        it does nothing: storage and usage belong to the parent.
        """
        if self._guard.in_child:
            return
        persistence, self._persistence = self._persistence, None
        if persistence is not None:
            try:
                self._searching.let_go()
            finally:
                persistence.close()
                self._catalog.deliver()

    def __len__(self) -> int:
        return len(self._catalog.entries)

    def __contains__(self, name: object) -> bool:
        return name in self._catalog.entries

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._catalog.entries))

    def __repr__(self) -> str:
        return f"<Registry of {len(self)} tools>"

    def register(
        self,
        item: object,
        *,
        on_conflict: OnConflict = "raise",
        groups: Iterable[str] = (),
        **policies: Unpack[PolicyOptions],
    ) -> Tool:
        """Put a tool on the board: a function, a `Tool`, or any object with `name` and `call`.

        A `Tool` alone is a definition: it is described, and calls of it are refused.

        Raises:
            InvalidToolError: when the item is not a tool.
            ToolConflictError: when the name is taken and ``on_conflict`` is ``"raise"``.
        """
        names = group_names(groups)
        report = self.register_many([item], on_conflict=on_conflict, groups=names, **policies)
        if report.registered:
            return report.registered[0]
        entry = self._catalog.awaited(report.skipped[0].name)
        if entry is not None:
            return entry.tool
        # The thread that was storing it has failed, so the name is free.
        return self.register(item, on_conflict=on_conflict, groups=names, **policies)

    @property
    def tool(self) -> RegisterDecorator:
        """Register a function and return it; it takes the options of `pegboard.tool`, or none."""
        return RegisterDecorator(self.register)

    def register_many(
        self,
        items: Iterable[object],
        *,
        on_conflict: OnConflict = "raise",
        on_error: OnError = "raise",
        groups: Iterable[str] = (),
        replacing: Iterable[str] = (),
        **policies: Unpack[PolicyOptions],
    ) -> Registration:
        """Register a batch in one step.

        With ``on_error="raise"`` all items are registered, or none. With ``"report"`` the valid
        items are registered, and the report says what is wrong with the others. The tools named in
        ``replacing`` are taken off the board in the same step, so that subscribers are told of one
        change.

        Raises:
            InvalidToolError: when an item is not a tool, with ``on_error="raise"``.
            ToolConflictError: when a name is taken, with ``on_error="raise"``.
        """
        self._guard.check()
        check_options(policies)
        if on_error not in ("raise", "report"):
            raise ValueError(f"`on_error` must be 'raise' or 'report', not {on_error!r}.")
        names, leaving = group_names(groups), frozenset(replacing)
        candidates, unfit = candidates_of(items, on_error, self._check_storable)
        taken = TakenNames(self._catalog, leaving)

        def settle() -> tuple[Mapping[str, Entry], Registration]:
            batch = Batch(on_conflict, {**self._policies, **policies}, names)
            refused = batch.add_all(candidates, taken, on_error=on_error)
            return batch.entries, Registration(
                registered=tuple(entry.tool for entry in batch.entries.values()),
                skipped=tuple(batch.skipped),
                rejected=tuple(sorted([*unfit, *refused], key=lambda it: it.index)),
            )

        # All slow work is done by now, and all that runs the caller's code.
        return self._catalog.change(
            settle,
            leaving=leaving,
            stored=any(it.is_definition for _, _, it in candidates),
            override=on_conflict == "override",
        )

    def unregister(self, name: str) -> Tool:
        """Take a tool off the board and return its definition.

        Raises:
            ToolNotFoundError: when no tool has that name.
        """

        def settle() -> tuple[Mapping[str, Entry], Tool]:
            return {}, self.get(name)

        return self._catalog.change(settle, leaving=[name], stored=False, override=False)

    def get(self, name: str) -> Tool:
        """Return the definition of a tool, whether or not it is visible.

        Raises:
            ToolNotFoundError: when no tool has that name.
        """
        return self._entry(name).tool

    def get_many(self, names: Iterable[str]) -> dict[str, Tool]:
        """Return the definitions of many tools by name, without the names that no tool has."""
        self._guard.check()
        entries = self._catalog.entries
        return {name: it.tool for name in names if (it := entries.get(name)) is not None}

    def is_definition(self, name: str) -> bool:
        """Tell whether a tool is only a definition, which cannot be called.

        Raises:
            ToolNotFoundError: when no tool has that name.
        """
        return self._entry(name).is_definition

    def runs(self, name: object) -> bool:
        """Tell whether a tool of that name can be called."""
        entry = self._find(name)
        return entry is not None and not entry.is_definition

    def shows(self, name: object) -> bool:
        """Tell whether a tool of that name is visible; see `tools`."""
        entry = self._find(name)
        return entry is not None and self._catalog.shows(entry)

    def usage(self, names: Iterable[str] | None = None) -> dict[str, Usage]:
        """Return how often and when tools were called, in this process and all others.

        Raises:
            StorageError: when the storage cannot be read.
            TypeError: when this registry has no storage.
        """
        self._guard.check()
        if self._persistence is None:
            raise TypeError(
                "This registry counts no usage: give it a storage, `Registry(storage=...)`."
            )
        return self._persistence.counter.usage(None if names is None else list(names))

    def tools(self) -> tuple[Tool, ...]:
        """Return the visible tools: no access list hides them, and none of their groups is off."""
        self._guard.check()
        return tuple(self._catalog.visible())

    def describe(self) -> dict[str, dict[str, Any]]:
        """Return ``{name: {"description": ..., "input_schema": ...}}`` of all visible tools."""
        self._guard.check()
        return {
            tool.name: {"description": tool.description, "input_schema": tool.input_schema}
            for tool in self._catalog.visible()
        }

    def search(
        self,
        text: str,
        *,
        where: Callable[[Tool], bool] | None = None,
        **options: Unpack[SearchOptions],
    ) -> SearchResponse:
        """Return the visible tools that do what a text asks for, the best first, or none.

        Args:
            text: what the tool should do.
            where: only tools for which this returns true; it is asked before the limit applies.
            options: see `SearchOptions`.

        Raises:
            InvalidQueryError: when the query or an option is not valid; see `SearchOptions`.
        """
        self._guard.check()
        [response] = self._searching.search_many([text], options, where=where)
        return response

    def search_many(
        self,
        texts: Iterable[str],
        *,
        where: Callable[[Tool], bool] | None = None,
        **options: Unpack[SearchOptions],
    ) -> list[SearchResponse]:
        """Search for many texts at once, which is faster than one by one.

        Raises:
            InvalidQueryError: when a query or an option is not valid.
        """
        self._guard.check()
        return self._searching.search_many(texts, options, where=where)

    def is_search_quick(self, text: str, *, method: str) -> bool:
        """Tell whether a search takes about a millisecond, with nothing to build or load."""
        return self._searching.is_quick(text, method)

    @property
    def search_engine(self) -> SearchEngine:
        """The search engine below `search`; it knows neither groups nor usage."""
        self._guard.check()
        return self._searching.engine

    def show_documents(self, documents: Mapping[str, Tool]) -> None:
        """Let a search with ``documents=True`` find these, by names that no tool has."""
        self._catalog.show_documents(documents)

    def add_searcher(self, method: str, make: Callable[[], Searcher]) -> None:
        """Add a search ``method``; ``make`` returns a new searcher, without tools."""
        self.search_engine.add_searcher(method, make)

    def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call a tool and wait for it; what it returns or raises reaches the caller unchanged.

        It works in a plain thread, and in a thread whose event loop is running. It blocks that
        event loop, so prefer `acall` there.

        Raises:
            ToolNotFoundError: when there is no such tool.
            CallRefusedError: when a policy refuses the call.
            ToolTimeoutError: when the deadline of the call passed.
        """
        entry = self._find(name)
        if entry is not None and not entry.inline:
            step, call = self._prepare(name, entry, arguments, meta)
            if not on_background_loop():
                return run_in_background(lambda: step(call), tool=name)
            step = refusal(WouldDeadlockError(name), entry.telemetry)
        else:
            step, call = self._prepare(name, entry, arguments, meta, inline=True)
        return run_inline(step(call))

    async def acall(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        meta: Mapping[str, Any] | None = None,
        *,
        phases: Phases | None = None,
    ) -> Any:
        """Call a tool from asynchronous code; a synchronous tool runs in a thread.

        The time of each phase is added to ``phases``.

        Raises:
            ToolNotFoundError: when there is no such tool.
            CallRefusedError: when a policy refuses the call.
            ToolTimeoutError: when the deadline of the call passed.
        """
        entry = self._find(name)
        step, call = self._prepare(name, entry, arguments, meta, phases=phases)
        return await step(call)

    def argument_schema(self, name: str) -> ArgumentSchema | None:
        """Return what the validation of a tool's calls compares with; ``None`` without validation.

        It is also ``None`` when there is no such tool, or when every call of it would be refused.
        """
        entry = self._find(name)
        if entry is None or not entry.permitted:
            return None
        entry.step()
        return entry.schema

    def enable_group(self, group: str) -> None:
        """Show the tools of a group again, except those in another group that is off."""
        self._switch(group, on=True)

    def disable_group(self, group: str) -> None:
        """Hide the tools of a group and refuse calls of them, also of tools registered later."""
        self._switch(group, on=False)

    def groups(self) -> dict[str, bool]:
        """Return every group, and whether it is on."""
        self._guard.check()
        entries = list(self._catalog.entries.values())
        return self._catalog.groups.states(group for entry in entries for group in entry.groups)

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Tell a subscriber about every change of the visible tools; call the result to stop."""
        return self._catalog.subscribe(subscriber)

    def observe(self, observer: Observer) -> Callable[[], None]:
        """Tell one more observer about each call; call the result to stop."""
        if self._policies.get("telemetry") is None:
            raise TypeError("This registry has `telemetry=None`, so it tells no observer.")
        with self._catalog.lock:
            self._telemetry.watch((*self._telemetry.observers, observer))

        def stop() -> None:
            with self._catalog.lock:
                self._telemetry.watch(without_one(self._telemetry.observers, observer))

        return stop

    def _check_storable(self, candidate: Candidate) -> None:
        if self._persistence is not None:
            self._persistence.check(candidate)

    def _stored_entry(self, tool: Tool) -> Entry:
        return Entry(tool, stored_candidate(tool), self._policies, ())

    def _switch(self, group: str, *, on: bool) -> None:
        with self._catalog.lock:
            self._catalog.switch(group, on=on)
        self._catalog.deliver()

    def _find(self, name: object) -> Entry | None:
        self._guard.check()
        return self._catalog.entries.get(name) if isinstance(name, str) else None

    def _entry(self, name: object) -> Entry:
        if (entry := self._find(name)) is None:
            raise self._not_found(name)
        return entry

    def _prepare(
        self,
        name: object,
        entry: Entry | None,
        arguments: object,
        meta: object,
        *,
        inline: bool = False,
        phases: Phases | None = None,
    ) -> tuple[Step, ToolCall]:
        if meta is None:
            attached = NO_META
        elif isinstance(meta, Mapping):
            attached: Mapping[str, Any] = freeze(cast("Mapping[str, Any]", meta))
        else:
            raise TypeError(f"`meta` takes an object (a dict), not {type(meta).__name__!r}.")
        given: Any = {} if arguments is None else arguments
        if entry is None:
            error: PegboardError = self._not_found(name)
            tool = Tool(name=printable_name(name))
            error.tool = tool.name
            return refusal(error, self._policies.get("telemetry")), ToolCall(
                tool, given, attached, phases=phases
            )
        # In this order: asking for a Mapping is slow, and nearly always it is a dict.
        if not isinstance(arguments, dict) and isinstance(arguments, Mapping):
            given = dict(cast("Mapping[str, Any]", arguments))
        off = self._catalog.groups.off
        problem = entry.problem(given, off=off) if off or not isinstance(arguments, dict) else None
        tally = Tally() if entry.may_wait else None
        call = ToolCall(entry.tool, given, attached, inline, tally, phases)
        if problem is not None:
            return refusal(problem, entry.telemetry), call
        return entry.made or entry.step(), call

    def _not_found(self, name: object) -> ToolNotFoundError:
        names = (tool.name for tool in self._catalog.visible())
        return ToolNotFoundError(name, nearest=nearest_names(name, names))
