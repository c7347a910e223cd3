"""call_tool: run a tool of the catalogue by its name, with the arguments that the model meant."""

from contextlib import suppress
from typing import Any

from pegboard.errors import InvalidArgumentsError, ToolNotFoundError
from pegboard.gateway.builtin_tool import BuiltinTool, CallerContext
from pegboard.gateway.calls.corrections import Correction, Corrector, MeantCall, noted
from pegboard.gateway.calls.run_call import CallRunner
from pegboard.gateway.errors import failure_of
from pegboard.gateway.tool_lines import signature, unknown_arguments
from pegboard.model import Tool
from pegboard.model.json_values import object_in
from pegboard.registry import Registry

__all__ = ["call_tool"]

_LONGEST = 512
DEFINITION = Tool(
    name="call_tool",
    description="Call a tool by the name and with the arguments that search_tools shows. A result "
    "that is too long is cut; read_result reads the rest.",
    input_schema={
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 1, "maxLength": _LONGEST},
            "arguments": {"type": ["object", "null"], "default": {}},
        },
        "required": ["name"],
        "additionalProperties": False,
    },
)


def call_tool(calls: CallRunner, registry: Registry) -> BuiltinTool:
    """Return the tool that calls others.

    Args:
        calls: finds and runs the tools.
        registry: knows what their arguments are compared with.
    """

    async def run(caller: CallerContext, arguments: dict[str, Any]) -> dict[str, Any]:
        given: dict[str, Any] = arguments["arguments"] or {}
        corrections: tuple[Correction, ...] = ()
        ignored: list[str] = []

        def fit(tool: Tool) -> dict[str, Any]:
            nonlocal given, corrections, ignored
            schema = registry.argument_schema(tool.name)
            if schema is not None and not schema.accepts(given):
                given, corrections = Corrector().fitting(given, schema) or (given, ())
            ignored = unknown_arguments(tool, given)
            return given

        result = await calls.call(caller, arguments["name"], given, fit=fit)
        return noted(result, corrections, ignored)

    async def run_refused(
        caller: CallerContext, arguments: dict[str, Any], error: InvalidArgumentsError
    ) -> dict[str, Any]:
        corrector = Corrector()
        meant = corrector.meant_call(arguments)
        name, sent = _named(arguments), arguments.get("arguments")
        if meant is None:
            calls.refuse(caller, name, sent, error)
        tool = None
        with suppress(ToolNotFoundError):
            tool = await calls.find(meant.name, caller.visibility)
        if tool is None:
            calls.refuse(caller, name, sent, error)
        schema = registry.argument_schema(tool.name)
        given, corrections = meant.arguments, meant.corrections
        if schema is not None and not schema.accepts(given):
            given, more = corrector.fitting(given, schema) or (None, ())
            corrections += more
        if given is None or not _may_be_its_own(meant, tool):
            with suppress(InvalidArgumentsError):
                calls.refuse(caller, name, sent, error)
            failed = failure_of(error, caller.client.principal, tool=DEFINITION)
            failed["content"][0]["text"] += f"\nThe tool takes: {signature(tool)}"
            return failed
        ignored = unknown_arguments(tool, given)
        return noted(await calls.call(caller, tool.name, given), corrections, ignored)

    return BuiltinTool(DEFINITION, run, run_refused=run_refused)


def _named(arguments: dict[str, Any]) -> str:
    """Return the name of the tool that refused arguments name, or that of `call_tool` itself."""
    name: object = arguments.get("name")
    return name[:_LONGEST] if isinstance(name, str) and name else DEFINITION.name


def _may_be_its_own(meant: MeantCall, tool: Tool) -> bool:
    """Tell whether what was beside the name are arguments of the tool."""
    schema = tool.input_schema
    return "properties" not in schema or meant.extra <= object_in(schema["properties"]).keys()
