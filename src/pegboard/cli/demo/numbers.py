"""Numbers: reckons, and says how numbers are spread."""

import ast
import operator
import statistics
from collections.abc import Callable
from typing import Annotated, Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

server: MCPServer = MCPServer("numbers")

LARGEST_POWER = 1000.0

Numbers = Annotated[list[float], Field(description="some numbers", min_length=1)]

_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda one, other: one / other,
    ast.FloorDiv: lambda one, other: one // other,
    ast.Mod: operator.mod,
    ast.Pow: lambda one, other: one**other,
}
_UNARY: dict[type, Callable[[Any], Any]] = {ast.UAdd: operator.pos, ast.USub: operator.neg}


@server.tool()
def calculate(
    expression: Annotated[str, Field(description="such as (2 + 3) * 4 ** 2", max_length=500)],
) -> float:
    """Evaluate an arithmetic expression with + - * / // % ** and brackets."""
    try:
        return _value(ast.parse(expression.strip(), mode="eval").body)
    except (SyntaxError, ValueError) as error:
        raise ToolError(f"That is no expression: {error.args[0]}.") from error
    except (ArithmeticError, RecursionError) as error:
        raise ToolError(f"That has no value: {error.args[-1]}.") from error


@server.tool()
def describe_numbers(numbers: Numbers) -> dict[str, float]:
    """Tell the mean, median, minimum, maximum and standard deviation of some numbers."""
    return {
        "mean": statistics.fmean(numbers),
        "median": statistics.median(numbers),
        "min": min(numbers),
        "max": max(numbers),
        "stdev": statistics.pstdev(numbers),
    }


@server.tool()
def to_roman(number: Annotated[int, Field(ge=1, le=3999)]) -> str:
    """Write a number in Roman numerals."""
    signs = ("M", "CM", "D", "CD", "C", "XC", "L", "XL", "X", "IX", "V", "IV", "I")
    values = (1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1)
    written = ""
    for sign, value in zip(signs, values, strict=True):
        count, number = divmod(number, value)
        written += sign * count
    return written


@server.tool()
def convert_base(
    digits: Annotated[str, Field(max_length=200)],
    from_base: Annotated[int, Field(ge=2, le=36)] = 10,
    to_base: Annotated[int, Field(ge=2, le=36)] = 2,
) -> str:
    """Convert a whole number from one base to another, such as decimal to binary or hexadecimal."""
    try:
        number = int(digits, from_base)
    except ValueError as error:
        raise ToolError(f"{digits!r} is no whole number in base {from_base}.") from error
    letters = "0123456789abcdefghijklmnopqrstuvwxyz"
    written = ""
    rest = abs(number)
    while rest or not written:
        rest, digit = divmod(rest, to_base)
        written = letters[digit] + written
    return f"-{written}" if number < 0 else written


def _value(node: ast.expr) -> float:
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return float(value)
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
            return _UNARY[type(op)](_value(operand))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            first, second = _value(left), _value(right)
            if isinstance(op, ast.Pow) and abs(second) > LARGEST_POWER:
                raise ToolError("That power is too large.")
            result = _BINARY[type(op)](first, second)
            if isinstance(result, complex):
                raise ToolError("That root is not a real number.")
            return result
        case _:
            raise ToolError("Only numbers, + - * / // % ** and brackets are understood.")


if __name__ == "__main__":
    server.run()
