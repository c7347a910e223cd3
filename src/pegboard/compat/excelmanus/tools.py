"""ExcelManus's host side: `ToolDef`, `ToolRegistry`, and definitions for OpenAI."""

import dataclasses
import functools
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Literal, Protocol, TypeAlias, cast, get_args, get_type_hints

from pegboard.errors import ToolConflictError, ToolNotFoundError
from pegboard.model import ToolResult
from pegboard.registry import Registry
from pegboard.toolsets import OpenAIApi, Toolset
from pegboard.toolsets.model_arguments import ANY_LEGAL, aliases_of, restore_names
from pegboard.toolsets.references import inline

__all__ = [
    "HostRegistry",
    "OpenAISchemaMode",
    "ToolConsistency",
    "ToolDef",
    "ToolNotAllowedError",
    "ToolRegistry",
    "ToolRegistryError",
    "ToolVisibility",
    "WriteEffect",
    "for_host",
]

OpenAISchemaMode: TypeAlias = Literal["responses", "chat_completions"]
"""Which of OpenAI's APIs the definitions are for."""
WriteEffect: TypeAlias = Literal["none", "workspace_write", "external_write", "dynamic", "unknown"]
"""What a call changes: nothing, the workspace, something elsewhere, it depends, or unknown."""
ToolVisibility: TypeAlias = Literal["always", "hide_in_read"]
"""Whether a host that only reads shows a tool."""
ToolConsistency: TypeAlias = Literal["local_commit", "external_unverified", "none"]
"""How a host can know that a call took effect."""

_APIS: dict[OpenAISchemaMode, OpenAIApi] = {"responses": "responses", "chat_completions": "chat"}
_LARGE_OBJECT, _LONG_TEXT = 200, 100
"""Characters; a smaller part of a result is not shortened."""
_Shorten: TypeAlias = Callable[[str, Any, int], dict[str, Any]]
_REMOTE = ("name", "description", "input_schema", "func", "async_func", "max_result_chars")


class ToolRegistryError(Exception):
    """A tool is not registered, because its name is taken."""


class ToolNotAllowedError(Exception):
    """A tool is outside of the scope of a call."""


class _NameTakenError(ToolConflictError, ToolRegistryError):
    """Both the error of the registry underneath and that of ExcelManus."""


@dataclass
class ToolDef:
    """A tool of the host: its definition for a model, and its function."""

    name: str
    description: str
    input_schema: dict[str, Any]
    func: Callable[..., Any]
    async_func: Callable[..., Any] | None = None
    """Does the same for a caller that can wait."""
    sensitive_fields: set[str] = field(default_factory=set[str])
    """The names of arguments that a host does not log."""
    max_result_chars: int = 3000
    """The length at which `truncate_result` cuts a text; 0 cuts nothing."""
    truncate_head_chars: int | None = None
    """How much of the beginning is kept if the end is kept, too; ``None`` keeps what is left."""
    truncate_tail_chars: int = 0
    """How much of the end is kept."""
    write_effect: WriteEffect = "unknown"
    visibility: ToolVisibility = "always"
    consistency: ToolConsistency = "local_commit"
    actions: dict[str, Any] = field(default_factory=dict[str, Any])
    """Notes of the host."""

    def truncate_result(self, text: str) -> str:
        """Return a text for a model, which says what was cut.

        A JSON object stays one as long as it can: first it loses rows of its longest list, else
        entries of its largest object, else the beginning of its longest text.
        """
        limit = self.max_result_chars
        if limit <= 0 or len(text) <= limit:
            return text
        try:
            shorter = _shorter_object(text, limit)
        except RecursionError:
            # It is nested deeper than Python reads JSON, so it is a text like any other.
            shorter = None
        return shorter or self._cut(text, limit)

    def to_openai_schema(self, mode: OpenAISchemaMode = "responses") -> dict[str, Any]:
        """Return the tool in the form for OpenAI.

        Raises:
            ValueError: when there is no such mode.
        """
        shown = {
            "name": self.name,
            "description": self.description,
            "parameters": self.input_schema,
        }
        if _api(mode) == "responses":
            return {"type": "function", **shown}
        return {"type": "function", "function": shown}

    def _cut(self, text: str, limit: int) -> str:
        tail = self.truncate_tail_chars
        head = self.truncate_head_chars or 0
        if tail > 0 and head <= 0:
            head = max(limit - tail, 0)
        if tail > 0 and 0 < head < len(text) - tail:
            kept = f"保留前 {head} 字符和后 {tail} 字符"
            mark = f"[结果中间已截断\uff0c{kept}\uff0c原始长度: {len(text)} 字符]"
            return f"{text[:head]}\n{mark}\n{text[-tail:]}"
        return f"{text[:limit]}\n[结果已截断\uff0c原始长度: {len(text)} 字符]"


class HostRegistry(Protocol):
    """What `MCPManager` needs of a host's registry, ours or its own.

    If the parameter of `register_tools` is annotated with a dataclass of the host, or with an
    iterable of one, the host gets objects of that class. Otherwise it gets a `ToolDef`.
    """

    def get_tool(self, tool_name: str, /) -> Any:
        """Return the tool of that name, or ``None``."""
        ...

    def register_tools(self, tools: Iterable[Any], /) -> object:
        """Register tools whose names are free."""
        ...


class ToolRegistry:
    """Built-in and remote tools by name, which callers use in the same way."""

    def __init__(self) -> None:
        self.registry: Registry = Registry(validation=None)
        """The core registry underneath."""
        self._view = _View(self.registry)
        self._tools: dict[str, ToolDef] = {}
        self._is_legal: dict[str, bool] = {}

    def fork(self) -> "ToolRegistry":
        """Return another registry with the same tools."""
        child = ToolRegistry()
        child.register_tools(self.get_all_tools())
        return child

    def register_tool(self, tool: ToolDef) -> None:
        """Register one tool.

        Raises:
            ToolRegistryError: when its name is taken; it is a `ToolConflictError`, too.
            InvalidToolError: when its definition is broken.
        """
        self.register_tools([tool])

    register = register_tool

    def register_tools(self, tools: Iterable[ToolDef], *, replacing: Iterable[str] = ()) -> None:
        """Register all of them, or none if one is refused.

        Args:
            tools: what to register.
            replacing: the names of tools to remove in the same step.

        Raises:
            ToolRegistryError: when a name is taken; it is a `ToolConflictError`, too.
            InvalidToolError: when a definition is broken.
        """
        given, leaving = list(tools), set(replacing)
        try:
            self.registry.register_many([_as_object(tool) for tool in given], replacing=leaving)
        except ToolConflictError as error:
            remedy = "Give it another name, or call `remove_tools` first."
            raise _NameTakenError(error.name, remedy=remedy) from None
        for name in leaving:
            self._tools.pop(name, None)
            self._is_legal.pop(name, None)
        self._tools.update({tool.name: tool for tool in given})

    def remove_tools(self, names: Sequence[str]) -> int:
        """Remove tools, and return how many there were."""
        leaving = self._tools.keys() & set(names)
        self.register_tools([], replacing=leaving)
        return len(leaving)

    def restrict(
        self, *, allowed: Sequence[str] | None = None, disallowed: Sequence[str] = ()
    ) -> None:
        """Remove all tools but those that are allowed, and those that are not."""
        kept = set(self._tools if allowed is None else allowed).difference(disallowed)
        self.remove_tools([name for name in self._tools if name not in kept])

    def get_tool(self, tool_name: str) -> ToolDef | None:
        """Return the tool of that name, or ``None``."""
        return self._tools.get(tool_name)

    def get_all_tools(self) -> list[ToolDef]:
        """Return all tools, in the order they were registered."""
        return list(self._tools.values())

    def get_tool_names(self) -> list[str]:
        """Return the names of all tools."""
        return list(self._tools)

    def get_openai_schemas(
        self, mode: OpenAISchemaMode = "responses", tool_scope: Sequence[str] | None = None
    ) -> list[dict[str, Any]]:
        """Return the tools in the form for OpenAI, in the order of their names.

        A name that OpenAI would refuse is changed; `call_tool` accepts both names.

        Args:
            mode: which of OpenAI's APIs they are for.
            tool_scope: return only the tools with these names.

        Raises:
            ValueError: when there is no such mode.
        """
        shown: dict[str, dict[str, Any]] = {}
        for definition in self._view.openai(api=_api(mode)):
            alias = definition.get("function", definition)["name"]
            tool = self._tools[self._view.name_in_registry(alias)]
            if tool.name not in self._is_legal:
                self._is_legal[tool.name] = alias == tool.name and not _aliases(tool)
            legal = self._is_legal[tool.name]
            shown[tool.name] = tool.to_openai_schema(mode) if legal else definition
        wanted = shown.keys() if tool_scope is None else shown.keys() & set(tool_scope)
        return [shown[name] for name in sorted(wanted)]

    def get_tiered_schemas(self, mode: OpenAISchemaMode = "responses") -> list[dict[str, Any]]:
        """Return what `get_openai_schemas` returns for all tools."""
        return self.get_openai_schemas(mode)

    def call_tool(
        self,
        tool_name: str,
        arguments: dict[str, Any],
        tool_scope: Sequence[str] | None = None,
    ) -> Any:
        """Call a tool, and return its result or raise its error.

        Args:
            tool_name: the name of the tool.
            arguments: the arguments of the call.
            tool_scope: refuse every tool that is not among these.

        Raises:
            ToolNotAllowedError: when the tool is outside of the scope.
            ToolNotFoundError: when there is no such tool; it is a `KeyError`.
            ToolExecutionError: when a remote tool reports a failure.
        """
        _check_scope(tool_name, tool_scope)
        name = self._view.name_in_registry(tool_name)
        return ToolResult.of(self.registry.call(name, arguments)).value()

    async def call_tool_async(
        self,
        tool_name: str,
        arguments: dict[str, Any],
        tool_scope: Sequence[str] | None = None,
    ) -> Any:
        """Do what `call_tool` does by the asynchronous function of a tool.

        Raises:
            RuntimeError: when the tool has none.
        """
        _check_scope(tool_name, tool_scope)
        tool = self._tools.get(tool_name)
        if tool is None:
            raise ToolNotFoundError(tool_name)
        if tool.async_func is None:
            raise RuntimeError(f"Tool {tool_name!r} has no `async_func`. Use `call_tool`.")
        return await tool.async_func(**arguments)

    @staticmethod
    def is_error_result(result: Any) -> bool:
        """Tell whether a text is the JSON by which ExcelManus's own tools report a failure."""
        if not isinstance(result, str) or not result.startswith(('{"status": "error"', '{"error"')):
            return False
        try:
            found = json.loads(result)
        except (ValueError, RecursionError):
            return False
        data = {"shape", "columns", "data", "sheets", "file"}
        return found.get("status") == "error" or ("error" in found and not data & found.keys())


def for_host(tool: ToolDef, registry: HostRegistry) -> Any:
    """Return a remote tool as an object of the class that a host's registry takes."""
    host_class = _tool_class(registry)
    if host_class is ToolDef:
        return tool
    known = {it.name for it in dataclasses.fields(host_class) if it.init}
    told = [it for it in (*_REMOTE, "write_effect", "consistency") if it in known]
    return host_class(**{it: getattr(tool, it) for it in told})


def _tool_class(registry: HostRegistry) -> Any:
    try:
        hints = get_type_hints(registry.register_tools)
    except Exception:  # noqa: BLE001 - an annotation of a host may be anything
        return ToolDef
    hints.pop("return", None)
    found = [part for hint in hints.values() for part in (hint, *get_args(hint))]
    classes = [it for it in found if isinstance(it, type) and dataclasses.is_dataclass(it)]
    return classes[0] if classes else ToolDef


class _View(Toolset):
    def name_in_registry(self, name: str) -> str:
        """Return the name of a tool that is given its own name, or the one OpenAI has for it."""
        return self._view.find(name).source.name


def _api(mode: OpenAISchemaMode) -> OpenAIApi:
    if mode not in _APIS:
        raise ValueError(f"`mode` must be 'responses' or 'chat_completions', not {mode!r}.")
    return _APIS[mode]


def _check_scope(tool_name: str, tool_scope: Sequence[str] | None) -> None:
    if tool_scope is not None and tool_name not in tool_scope:
        raise ToolNotAllowedError(f"Tool {tool_name!r} is not in `tool_scope`.")


def _aliases(tool: ToolDef) -> dict[str, str]:
    return aliases_of(inline(tool.input_schema), ANY_LEGAL)


def _as_object(tool: ToolDef) -> SimpleNamespace:
    @functools.cache
    def originals() -> dict[str, str]:
        return {alias: name for name, alias in _aliases(tool).items()}

    def call(arguments: dict[str, Any]) -> Any:
        # The names that OpenAI was given instead of those it refuses; all else goes on as it is.
        given = restore_names(arguments, originals()) if originals() else arguments
        return tool.func(**given)

    return SimpleNamespace(
        name=tool.name,
        description=tool.description,
        input_schema=tool.input_schema,
        call=call,
    )


def _shorter_object(text: str, limit: int) -> str | None:
    """Return a JSON object with one part shortened, and a note; ``None`` if that is not enough.

    That part is its longest list, else its largest object, else its longest text.
    """
    try:
        parsed: object = json.loads(text)
    except ValueError:
        return None
    if not isinstance(parsed, dict):
        return None
    data = cast("dict[str, Any]", parsed)
    kinds: dict[str, type] = {key: type(it) for key, it in data.items()}
    lists = {key: len(data[key]) for key, kind in kinds.items() if kind is list}
    own = {key: kind for key, kind in kinds.items() if not key.startswith("_")}
    sizes = {key: len(_dumped(data[key])) for key, kind in own.items() if kind is dict}
    texts = {key: len(data[key]) for key, kind in own.items() if kind is str}
    for parts, least, shorten in (
        (lists, 0, _fewer_rows),
        (sizes, _LARGE_OBJECT, _fewer_entries),
        (texts, _LONG_TEXT, _shorter_text),
    ):
        key = max(parts, key=parts.__getitem__, default="")
        if parts.get(key, 0) > least and (found := _most_of(data, key, shorten, limit)):
            return found
    return None


def _most_of(data: dict[str, Any], key: str, shorten: _Shorten, limit: int) -> str | None:
    whole, best = len(data[key]), None
    low, high = 0, whole
    while low <= high:
        kept = (low + high) // 2
        text = _dumped({**data, **(shorten(key, data[key], kept) if kept < whole else {})})
        if len(text) <= limit:
            best, low = text, kept + 1
        else:
            high = kept - 1
    return best


def _fewer_rows(key: str, rows: list[Any], kept: int) -> dict[str, Any]:
    note = f"完整数据有 {len(rows)} 行\uff0c仅展示前 {kept} 行"
    return {key: rows[:kept], f"_{key}_truncated": True, f"_{key}_note": note}


def _fewer_entries(key: str, entries: dict[str, Any], kept: int) -> dict[str, Any]:
    note = f"保留 {kept}/{len(entries)} 项"
    return {key: {**dict(list(entries.items())[:kept]), "__truncated__": note}}


def _shorter_text(key: str, text: str, kept: int) -> dict[str, Any]:
    # The end of an output tells more than its beginning.
    note = f"原始输出 {len(text)} 字符\uff0c保留后 {kept} 字符"
    return {key: text[len(text) - kept :], f"_{key}_note": note}


def _dumped(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
