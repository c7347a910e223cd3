"""Definitions of tools: which cannot be used, which say nothing, which are heavy."""

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
from pegboard.model.tool_names import legal_name, mcp, name_matcher, nearest_names
from pegboard.search import tokens_of
from pegboard.upstream.catalog.cached_tools import permission_of
from pegboard.upstream.catalog.feed import tool_of

__all__ = ["HEAVY", "KnownTool", "look_at_definitions", "wanted_name"]

HEAVY = 2_000
"""A definition that takes more tokens than this is worth a word."""
_LISTED = 5
_REPORT = (
    "Report it to whoever writes the server; until then the tool is left out, and the rest works."
)


class KnownTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that can be used, and whose it is."""

    config: ServerConfig
    original: str
    raw: Mapping[str, Any]
    tool: Tool
    """Under the name that its server has for it."""
    tokens: int


def look_at_definitions(visit: Probe) -> tuple[list[KnownTool], list[Finding]]:
    """Return the tools of a server that can be used, and what is wrong with its definitions."""
    known: list[KnownTool] = []
    wrong: list[Finding] = []
    permits = permission_of(visit.config)
    seen: set[str] = set()
    for raw in visit.listed:
        try:
            tool = _understood(raw, visit.config, seen)
        except InvalidToolError as error:
            wrong.append(_unusable(raw, visit.config, error))
            continue
        if permits(tool.name):
            known.append(_known(tool, raw, visit.config))
    names = [it.original for it in known]
    wrong += _useless_patterns(visit.config, sorted(seen))
    wrong += _silent(visit.config, [it.original for it in known if not it.tool.description.strip()])
    wrong += [_heavy(it) for it in known if it.tokens > HEAVY]
    if not names and not wrong:
        wrong.append(_none(visit))
    return known, wrong


def wanted_name(config: ServerConfig, original: str) -> str:
    """Return what a tool of a server is to be called, legal or not."""
    return mcp(config.name, original) if config.prefix is None else config.prefix + original


def _known(tool: Tool, raw: Mapping[str, Any], config: ServerConfig) -> KnownTool:
    name = legal_name(wanted_name(config, tool.name), (config.name, tool.name))
    shown_so = {**definition_of(tool, raw), "name": name}
    tokens = tokens_of(msgspec.json.encode(shown_so).decode())
    return KnownTool(config=config, original=tool.name, raw=raw, tool=tool, tokens=tokens)


def _understood(raw: Mapping[str, Any], config: ServerConfig, seen: set[str]) -> Tool:
    name = _name_of(raw)
    if name is None:
        raise InvalidToolError("A tool without a name.")
    if name in seen:
        raise InvalidToolError(f"The tool {name!r} stands in the list a second time.")
    seen.add(name)
    tool = tool_of(raw, name, config)
    ArgumentSchema(tool.input_schema, tool=name)
    if tool.output_schema is not None:
        check_output_schema(tool.output_schema, tool=name)
    kind: object = tool.input_schema.get("type", "object")
    if kind != "object":
        raise InvalidToolError(
            f"The input_schema of tool {name!r} is of type {shown(repr(kind), 40)}, and not of "
            "type 'object'."
        )
    return tool


def _unusable(raw: Mapping[str, Any], config: ServerConfig, error: InvalidToolError) -> Finding:
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
        _REPORT,
        server=config.name,
        tool=None if name is None else shown(name, 80),
    )


def _is_about_a_reference(cause: BaseException | None) -> bool:
    if isinstance(cause, jsonschema_rs.ValidationError):
        return isinstance(cause.kind, jsonschema_rs.ValidationErrorKind.Referencing)
    return isinstance(cause, jsonschema_rs.ReferencingError)


def _name_of(raw: object) -> str | None:
    # Whatever a server lists, which need not be an object.
    name = cast("Mapping[str, Any]", raw).get("name") if isinstance(raw, Mapping) else None
    return name if isinstance(name, str) else None


def _none(visit: Probe) -> Finding:
    name = visit.config.name
    if visit.listed:
        return found(
            "no_tools",
            f"Server {name!r} has {len(visit.listed)} tools, and its entry lets none of them "
            "through.",
            "Look at `allow` and `deny` of its entry.",
            server=name,
        )
    return found(
        "no_tools",
        f"Server {name!r} runs, but has no tools.",
        "It may offer only prompts or resources, or show tools after a setting or a login: its "
        "page should say.",
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
                remedy if names else "Leave it out, or wait for the server to have tools.",
                server=config.name,
            )


def _silent(config: ServerConfig, names: list[str]) -> Iterator[Finding]:
    if names:
        yield found(
            "no_description",
            f"Server {config.name!r} does not say what these tools do: {_some(names)}.",
            "A model can hardly choose them: report it to whoever writes the server.",
            server=config.name,
            tool=shown(names[0], 80) if len(names) == 1 else None,
        )


def _heavy(it: KnownTool) -> Finding:
    return found(
        "heavy_tool",
        f"The definition of {it.original!r} of server {it.config.name!r} takes about "
        f"{it.tokens:,} tokens of a model's context.",
        "Serve it by search (`pegboard serve`, which is the default), so that it is loaded only "
        f'when it is needed; or leave it out: `"deny": ["{it.original}"]`.',
        server=it.config.name,
        tool=it.original,
    )


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(f"`{shown(name, 80)}`" for name in names[:_LISTED]) + more
