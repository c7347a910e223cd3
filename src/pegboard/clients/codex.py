"""An entry of Codex, whose names are its own, as one of ours."""

from collections.abc import Mapping
from typing import Any, cast

__all__ = ["codex_entry"]

_SAME = ("command", "args", "cwd", "url", "enabled")
_RENAMED = {
    "http_headers": "headers",
    "enabled_tools": "allow",
    "disabled_tools": "deny",
}


def codex_entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry with our names of fields; what only Codex understands is left out."""
    found = {field: entry[field] for field in _SAME if field in entry}
    found |= {ours: entry[field] for field, ours in _RENAMED.items() if field in entry}
    env = {**_forwarded(entry.get("env_vars")), **_object(entry.get("env"))}
    if env:
        found["env"] = env
    for header, variable in _object(entry.get("env_http_headers")).items():
        found["headers"] = {**_object(found.get("headers")), header: f"${{{variable}}}"}
    if isinstance(entry.get("bearer_token_env_var"), str):
        found["bearer_token"] = f"${{{entry['bearer_token_env_var']}}}"
    timeouts = {
        "connect": _seconds(entry, "startup_timeout_sec", "startup_timeout_ms"),
        "call": _seconds(entry, "tool_timeout_sec"),
    }
    given = {field: value for field, value in timeouts.items() if value is not None}
    return found | ({"timeouts": given} if given else {})


def _object(value: object) -> dict[str, Any]:
    return dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else {}


def _forwarded(names: object) -> dict[str, str]:
    """Return variables that are handed on from the environment, by name or as `{name = …}`."""
    listed = cast("list[object]", names) if isinstance(names, list) else []
    plain = [_object(it).get("name", it) for it in listed]
    return {it: f"${{{it}}}" for it in plain if isinstance(it, str)}


def _seconds(entry: Mapping[str, Any], field: str, milliseconds: str = "") -> float | None:
    value, thousandth = entry.get(field), entry.get(milliseconds)
    if isinstance(value, int | float) and value > 0:
        return value
    if isinstance(thousandth, int | float) and thousandth > 0:
        return thousandth / 1000
    return None
