"""Read the entries of clients with fields of their own, such as Codex, opencode and Goose."""

import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from pegboard.clients.our_entry import map_texts

__all__ = ["in_usual_fields"]

Entry = dict[str, Any]
_BARE_VARIABLE = re.compile(r"(?<!\$)\$([A-Za-z_][A-Za-z0-9_]*)")
_OPENCODE_VARIABLE = re.compile(r"\{(env:[^{}]+|file:[/~][^{}]*)\}")


def in_usual_fields(client: str, entry: Mapping[str, Any]) -> Entry:
    """Return an entry of a client in the fields that most clients have.

    Fields that only this client knows are left out.
    """
    translate = _DIALECTS.get(client)
    return dict(entry) if translate is None else translate(dict(entry))


def _of_codex(entry: Entry) -> Entry:
    found = _only(entry, "command", "args", "cwd", "url", "enabled")
    found |= _only(entry, http_headers="headers", enabled_tools="allow", disabled_tools="deny")
    env = {**_forwarded(entry.get("env_vars")), **_object(entry.get("env"))}
    if env:
        found["env"] = env
    for header, variable in _object(entry.get("env_http_headers")).items():
        found["headers"] = {**_object(found.get("headers")), header: f"${{{variable}}}"}
    if isinstance(entry.get("bearer_token_env_var"), str):
        found["bearer_token"] = f"${{{entry['bearer_token_env_var']}}}"
    return found | _timeouts(
        connect=_seconds(entry, "startup_timeout_sec", "startup_timeout_ms"),
        call=_seconds(entry, "tool_timeout_sec"),
    )


def _of_gemini(entry: Entry) -> Entry:
    found = _with_braces(entry)
    if "url" in found and "httpUrl" not in found and "type" not in found:
        found["type"] = "sse"
    timeout = found.pop("timeout", None)
    return found | _timeouts(call=_seconds({"timeout": timeout}, milliseconds="timeout"))


def _of_opencode(entry: Entry) -> Entry:
    found = _only(entry, "cwd", "url", "headers", "oauth", "enabled", environment="env")
    command = entry.get("command")
    if isinstance(command, list) and command:
        found["command"], *found["args"] = cast("list[object]", command)
    with_ours = map_texts(found, lambda it: _OPENCODE_VARIABLE.sub(r"${\1}", it))
    return cast("Entry", with_ours) | _timeouts(call=_seconds(entry, milliseconds="timeout"))


def _of_cline(entry: Entry) -> Entry:
    found = dict(entry)
    if isinstance(entry.get("transport"), Mapping):
        # Newer files have what belongs to the transport in an object of its own.
        found = {**found, **_object(found.pop("transport"))}
    if "url" in found and not {"type", "transportType"} & found.keys():
        found["type"] = "sse"
    return found


def _of_crush(entry: Entry) -> Entry:
    found = _with_braces(entry)
    return found | _only(found, enabled_tools="allow", disabled_tools="deny")


def _of_goose(entry: Entry) -> Entry:
    found = _only(entry, "args", "headers", "enabled", cmd="command", uri="url")
    # Goose keeps the values of `env_keys` itself, so they come from the environment here.
    env = {**_forwarded(entry.get("env_keys")), **_object(entry.get("envs"))}
    if env and "command" in found:
        found["env"] = env
    if "headers" in found:
        found["headers"] = _with_braces(_object(found["headers"]))
    if entry.get("type") == "sse":
        found["type"] = "sse"
    if entry.get("available_tools"):
        found["allow"] = entry["available_tools"]
    return found | _timeouts(call=_seconds(entry, "timeout"))


def _with_braces(entry: Entry) -> Entry:
    """Return the entry with each ``$NAME`` as ``${NAME}``."""
    return cast("Entry", map_texts(entry, lambda it: _BARE_VARIABLE.sub(r"${\1}", it)))


def _only(entry: Entry, *same: str, **renamed: str) -> Entry:
    """Return some fields of an entry, the latter under other names."""
    named = {**dict(zip(same, same, strict=True)), **renamed}
    return {ours: entry[field] for field, ours in named.items() if field in entry}


def _object(value: object) -> Entry:
    return dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else {}


def _forwarded(names: object) -> dict[str, str]:
    """Return variables that are handed on from the environment, by name or as `{name = …}`."""
    listed = cast("list[object]", names) if isinstance(names, list) else []
    plain = [_object(it).get("name", it) for it in listed]
    return {it: f"${{{it}}}" for it in plain if isinstance(it, str)}


def _timeouts(**seconds: float | None) -> Entry:
    given = {step: value for step, value in seconds.items() if value is not None}
    return {"timeouts": given} if given else {}


def _seconds(entry: Entry, seconds: str = "", milliseconds: str = "") -> float | None:
    value, thousandth = entry.get(seconds), entry.get(milliseconds)
    if isinstance(value, int | float) and value > 0:
        return value
    if isinstance(thousandth, int | float) and thousandth > 0:
        return thousandth / 1000
    return None


_DIALECTS: dict[str, Callable[[Entry], Entry]] = {
    "cline": _of_cline,
    "codex": _of_codex,
    "crush": _of_crush,
    "gemini": _of_gemini,
    "goose": _of_goose,
    "opencode": _of_opencode,
    "qwen": _of_gemini,
}
