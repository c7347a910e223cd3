"""ExcelManus's rules for remote tools: prefixed names, the text of results, effects of calls."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias, cast

from pegboard.model.tool_names import mcp

__all__ = [
    "WriteEffect",
    "add_tool_prefix",
    "error_text",
    "field_of",
    "format_tool_result",
    "infer_mcp_write_effect",
    "normalize_server_name",
    "parse_tool_prefix",
    "prefixed_names",
    "shorter_object",
]

WriteEffect: TypeAlias = Literal["none", "workspace_write", "external_write", "dynamic", "unknown"]
"""What a call changes: nothing, the workspace, something elsewhere, it depends, or unknown."""

prefixed_names: dict[str, tuple[str, str]] = {}
"""Names that `add_tool_prefix` made: the server, with `_` for `-`, and the tool's own name."""

_PREFIX = "mcp_"
# fmt: off
_WRITING = {
    "append", "commit", "copy", "create", "delete", "destroy", "drop", "edit", "insert", "modify",
    "move", "mutate", "patch", "post", "publish", "put", "remove", "rename", "replace", "save",
    "send", "update", "upload", "write",
}
# fmt: on
_WRITING_IN_CHINESE = ("写入", "删除", "更新", "创建", "保存", "修改", "重命名")
_OUTSIDE = {"email", "http", "https", "slack", "smtp", "telegram", "tweet", "url", "webhook"}
_LARGE_OBJECT, _LONG_TEXT = 200, 100
"""Characters; a smaller part of a result is not shortened."""
_Shorten: TypeAlias = Callable[[str, Any, int], dict[str, Any]]
_READING_SCOPES = ("search", "readonly", "read-only", "read")


def normalize_server_name(server_name: str) -> str:
    """Return a server's name as it stands in the names of its tools."""
    return server_name.replace("-", "_")


def add_tool_prefix(server_name: str, tool_name: str) -> str:
    """Return the name by which a tool is registered, and remember where it came from."""
    prefixed = mcp(server_name, tool_name)
    prefixed_names[prefixed] = (normalize_server_name(server_name), tool_name)
    return prefixed


def parse_tool_prefix(prefixed_name: str) -> tuple[str, str]:
    """Return the server, with `_` for `-`, and the tool's own name.

    A name that `add_tool_prefix` did not make is split at its second `_`. `MCPManager.origin`
    tells the server's name as it is written.

    Raises:
        ValueError: when it is not the name of a remote tool.
    """
    if not prefixed_name.startswith(_PREFIX):
        raise ValueError(f"Tool name {prefixed_name!r} has no prefix (不以 '{_PREFIX}' 开头).")
    if prefixed_name in prefixed_names:
        return prefixed_names[prefixed_name]
    server, underscore, tool = prefixed_name.removeprefix(_PREFIX).partition("_")
    if not server or not underscore:
        raise ValueError(f"Tool name {prefixed_name!r} is not `mcp_SERVER_TOOL` (格式不合法).")
    return server, tool


def format_tool_result(mcp_result: Any) -> str:
    """Return a result as text: its texts, else its structured content, else what blocks it has.

    It takes a result of an MCP SDK, one in the form of the protocol, or a text, which it returns.
    """
    if isinstance(mcp_result, str):
        return mcp_result
    texts: list[str] = []
    others: list[str] = []
    for block in field_of(mcp_result, "content") or ():
        kind = field_of(block, "type")
        if kind == "text":
            texts.append(_text_of(block))
        elif kind == "resource":
            others.append(_shown_resource(field_of(block, "resource")))
        elif kind:
            others.append(f"[{kind} content]")
    if any(texts):
        return "\n".join(filter(None, texts))
    structured = field_of(mcp_result, "structuredContent", "structured_content")
    if structured in (None, ""):
        return "\n".join(others)
    try:
        return json.dumps(structured, ensure_ascii=False, indent=2, sort_keys=True)
    except TypeError:
        return str(structured)


def error_text(mcp_result: Any) -> str:
    """Return the texts of a result that reports a failure."""
    blocks = field_of(mcp_result, "content") or ()
    texts = [_text_of(block) for block in blocks if field_of(block, "type") == "text"]
    return "\n".join(filter(None, texts)) or "unknown error (未知错误)"


def infer_mcp_write_effect(
    *,
    original_name: str,
    description: str = "",
    input_schema: dict[str, Any] | None = None,
    auto_approved: bool = False,
    scope: str = "",
) -> WriteEffect:
    """Guess from its words what a call of a tool changes; only a scope makes it read-only.

    Args:
        original_name: the server's own name of the tool.
        description: the server's description.
        input_schema: its properties count as words, too.
        auto_approved: changes nothing; a tool may write without being asked about.
        scope: the ``scope`` of the server.
    """
    properties = (input_schema or {}).get("properties")
    named = cast("dict[str, Any]", properties) if isinstance(properties, dict) else {}
    text = " ".join([original_name, description, *named])
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", text).replace("_", " ").lower()
    words = set(re.findall(r"\w+", spaced))
    if words & _WRITING or any(it in description for it in _WRITING_IN_CHINESE):
        return "external_write" if words & _OUTSIDE else "workspace_write"
    return "none" if scope.strip().lower().replace("_", "-") in _READING_SCOPES else "unknown"


def field_of(thing: Any, *names: str) -> Any:
    """Return the first field of a value of the protocol, or of an MCP SDK, that is not ``None``."""
    if isinstance(thing, Mapping):
        fields = cast("Mapping[str, Any]", thing)
        found = (fields.get(name) for name in names)
    else:
        found = (getattr(thing, name, None) for name in names)
    return next((it for it in found if it is not None), None)


def shorter_object(text: str, limit: int) -> str | None:
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


def _text_of(block: Any) -> str:
    text = field_of(block, "text")
    return text if isinstance(text, str) else ""


def _shown_resource(resource: Any) -> str:
    if text := _text_of(resource).strip():
        return text
    uri, kind = field_of(resource, "uri"), field_of(resource, "mimeType", "mime_type")
    words = ["resource", f"uri={uri}" if uri else "", f"mime={kind}" if kind else ""]
    return f"[{' '.join(filter(None, words))}]"


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
