"""A calculator without `eval`: a tool object in the style of the first design document."""

import ast
import operator
from collections.abc import Callable
from typing import Any

_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}


class Calculator:
    """Evaluates `+ - * / // %` and parentheses over numbers, and nothing else."""

    name = "calculator"
    description = "Evaluate a simple arithmetic expression"
    input_schema: dict[str, Any] = {  # noqa: RUF012 - written as the document writes it
        "type": "object",
        "properties": {"expr": {"type": "string", "maxLength": 200}},
        "required": ["expr"],
    }

    def call(self, arguments: dict[str, Any]) -> dict[str, str]:
        """Evaluate `expr`."""
        return {"output": str(_evaluate(ast.parse(arguments["expr"], mode="eval").body))}


def _evaluate(node: ast.expr) -> int | float:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return number
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_evaluate(left), _evaluate(right))
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_evaluate(operand))
        case _:
            raise ValueError(f"Not arithmetic: {ast.unparse(node)!r}.")
