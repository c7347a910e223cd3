"""Check tool definitions: invalid schemas, missing descriptions, size in tokens, patterns."""

from collections.abc import Iterator, Mapping
from typing import Any, cast

import jsonschema_rs
import msgspec

from pegboard.config import ServerConfig
from pegboard.doctor.probes.probe import Probe
from pegboard.doctor.report import Finding, found, shown
from pegboard.errors import InvalidToolError
from pegboard.model import Tool
from pegboard.model.schema.schema import ArgumentSchema, check_output_schema
from pegboard.model.tool import definition_of
from pegboard.model.tool_names import legal_name, name_matcher, nearest_names
from pegboard.search import tokens_of
from pegboard.upstream.catalog.feed import tool_of
from pegboard.upstream.catalog.offline_catalog import permission_of

__all__ = ["HEAVY", "KnownTool", "check_definitions"]

HEAVY = 2_000
"""A definition that takes more tokens than this is reported."""
_LISTED = 5
_REPORT = (
    "Report it to the author of the server. Until it is fixed, Pegboard leaves the tool out; the "
    "server's other tools work."
)


_REPORT_REPEATED = (
    "Report it to the author of the server. Until it is fixed, Pegboard lists the tool with the "
    "first of its definitions."
)
_REPORT_NO_OBJECT = (
    "Report it to the author of the server. Until it is fixed, Pegboard lists the tool, but many "
    "clients refuse it, and no call may fit its schema."
)


class KnownTool(msgspec.Struct, frozen=True, kw_only=True):
    """A usable tool, and the server that it belongs to."""

    config: ServerConfig
    original: str
    raw: Mapping[str, Any]
    tool: Tool
    """It has the name that its server gives it."""
    tokens: int


def check_definitions(probe: Probe) -> tuple[list[KnownTool], list[Finding]]:
    """Return the usable tools of a server, and what is wrong with its definitions."""
    known: list[KnownTool] = []
    wrong: list[Finding] = []
    permits = permission_of(probe.config)
    seen: set[str] = set()
    for raw in probe.listed:
        name = _name_of(raw)
        if name in seen:
            error = InvalidToolError(f"The server lists the tool {name!r} twice.")
            wrong.append(_unusable(raw, probe.config, error, remedy=_REPORT_REPEATED))
            continue
        try:
            tool = _understood(raw, probe.config, seen)
        except InvalidToolError as error:
            wrong.append(_unusable(raw, probe.config, error))
            continue
        if permits(tool.name):
            known.append(_known(tool, raw, probe.config))
            wrong += _no_object(tool, raw, probe.config)
    names = [it.original for it in known]
    wrong += _useless_patterns(probe.config, sorted(seen))
    wrong += _silent(probe.config, [it.original for it in known if not it.tool.description.strip()])
    wrong += [_heavy(it) for it in known if it.tokens > HEAVY]
    if not names and not wrong:
        wrong.append(_none(probe))
    return known, wrong


def _known(tool: Tool, raw: Mapping[str, Any], config: ServerConfig) -> KnownTool:
    name = legal_name(config.tool_name(tool.name), (config.name, tool.name))
    shown_so = {**definition_of(tool, raw), "name": name}
    tokens = tokens_of(msgspec.json.encode(shown_so).decode())
    return KnownTool(config=config, original=tool.name, raw=raw, tool=tool, tokens=tokens)


def _understood(raw: Mapping[str, Any], config: ServerConfig, seen: set[str]) -> Tool:
    name = _name_of(raw)
    if name is None:
        raise InvalidToolError("A tool has no name.")
    seen.add(name)
    tool = tool_of(raw, name, config)
    ArgumentSchema(tool.input_schema, tool=name)
    if tool.output_schema is not None:
        check_output_schema(tool.output_schema, tool=name)
    return tool


def _no_object(tool: Tool, raw: Mapping[str, Any], config: ServerConfig) -> Iterator[Finding]:
    kind: object = tool.input_schema.get("type", "object")
    if kind != "object":
        error = InvalidToolError(
            f"The input_schema of tool {tool.name!r} has the type {shown(repr(kind), 40)}, but "
            "must have the type 'object'."
        )
        yield _unusable(raw, config, error, remedy=_REPORT_NO_OBJECT)


def _unusable(
    raw: Mapping[str, Any], config: ServerConfig, error: InvalidToolError, *, remedy: str = _REPORT
) -> Finding:
    name = _name_of(raw)
    words = str(error)
    code = "unusable_tool"
    if _is_about_a_reference(error.__cause__):
        code = "unresolved_reference"
    elif "schema" in words:
        code = "bad_schema"
    return found(
        code,
        f"Server {config.name!r}: {shown(config.redact(words))}",
        remedy,
        server=config.name,
        tool=None if name is None else shown(name, 80),
    )


def _is_about_a_reference(cause: BaseException | None) -> bool:
    if isinstance(cause, jsonschema_rs.ValidationError):
        return isinstance(cause.kind, jsonschema_rs.ValidationErrorKind.Referencing)
    return isinstance(cause, jsonschema_rs.ReferencingError)


def _name_of(raw: object) -> str | None:
    # A server may list something that is not an object.
    name = cast("Mapping[str, Any]", raw).get("name") if isinstance(raw, Mapping) else None
    return name if isinstance(name, str) else None


def _none(probe: Probe) -> Finding:
    name = probe.config.name
    if probe.listed:
        return found(
            "no_tools",
            f"Server {name!r} has {len(probe.listed)} tools, but its entry excludes all of them.",
            "Check `allow` and `deny` in its entry.",
            server=name,
        )
    return found(
        "no_tools",
        f"Server {name!r} runs, but it has no tools.",
        "It may offer only prompts or resources, or it may need a setting or a login first. Check "
        "its documentation.",
        server=name,
    )


def _useless_patterns(config: ServerConfig, names: list[str]) -> Iterator[Finding]:
    for option, patterns in (("allow", config.allow), ("deny", config.deny)):
        for pattern in patterns:
            matches = name_matcher(option, [pattern])
            if pattern == "*" or any(matches(name) for name in names):
                continue
            near = nearest_names(pattern, names, limit=1)
            remedy = f"Did you mean {near[0]!r}?" if near else f"The tools are: {_some(names)}."
            yield found(
                "unmatched_pattern",
                f"No tool of server {config.name!r} matches {pattern!r} in its `{option}`.",
                remedy if names else "Remove the pattern, or wait until the server has tools.",
                server=config.name,
            )


def _silent(config: ServerConfig, names: list[str]) -> Iterator[Finding]:
    if names:
        yield found(
            "no_description",
            f"Server {config.name!r} does not say what these tools do: {_some(names)}.",
            "Report it to the author of the server: a model cannot tell when to use these tools.",
            server=config.name,
            tool=shown(names[0], 80) if len(names) == 1 else None,
        )


def _heavy(it: KnownTool) -> Finding:
    return found(
        "heavy_tool",
        f"The definition of tool {it.original!r} of server {it.config.name!r} takes about "
        f"{it.tokens:,} tokens of a model's context.",
        "Serve it through search, the default of `pegboard serve`, so that it is loaded only when "
        f'it is needed; or exclude it: `"deny": ["{it.original}"]`.',
        server=it.config.name,
        tool=it.original,
    )


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(f"`{shown(name, 80)}`" for name in names[:_LISTED]) + more
