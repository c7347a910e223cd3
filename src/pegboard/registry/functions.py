"""Python functions as tools: the schema comes from signature and docstring."""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, overload

from pegboard.errors import InvalidToolError
from pegboard.model import Annotations, Tool, ToolCall
from pegboard.registry.docstrings import read_docstring
from pegboard.registry.implementation import Implementation, is_async
from pegboard.registry.parameters import Parameters
from pegboard.registry.types import output_schema

__all__ = ["FunctionTool", "tool"]


class FunctionTool:
    """A function with its tool definition; calling it calls the function."""

    def __init__(
        self, function: Callable[..., Any], definition: Tool, parameters: Parameters
    ) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.definition = definition
        self._parameters = parameters

    @classmethod
    def of(cls, function: Callable[..., Any], **overrides: Any) -> "FunctionTool":
        """Read a function's signature and docstring; `overrides` are fields of `Tool`."""
        name: str = overrides.pop("name", None) or getattr(function, "__name__", "")
        if name == "<lambda>":
            raise InvalidToolError("A lambda has no name; pass one: `tool(name=...)(lambda ...)`.")
        if not name:
            raise InvalidToolError(f"{function!r} has no name; pass one: `tool(name=...)(...)`.")
        try:
            signature = inspect.signature(function, eval_str=True)
        except (ValueError, TypeError, NameError, SyntaxError, AttributeError) as error:
            raise InvalidToolError(
                f"The signature of tool {name!r} cannot be read: {error}. "
                "Are all its annotations defined where the function is?"
            ) from error
        docs = read_docstring(function)
        parameters = Parameters(signature, tool=name, described=docs.parameters)
        fields: dict[str, Any] = {
            "description": docs.description,
            "input_schema": parameters.schema,
            "output_schema": output_schema(signature.return_annotation),
        }
        fields.update({key: value for key, value in overrides.items() if value is not None})
        return cls(function, Tool(name=name, **fields), parameters)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<tool {self.definition.name!r}: {self.function!r}>"

    @property
    def name(self) -> str:
        """The tool's name."""
        return self.definition.name

    @property
    def description(self) -> str:
        """The tool's description."""
        return self.definition.description

    @property
    def input_schema(self) -> Mapping[str, Any]:
        """The JSON Schema of the arguments."""
        return self.definition.input_schema

    def call(self, arguments: dict[str, Any]) -> Any:
        """Run the function with JSON arguments, converted to the types it asks for."""
        return self._parameters.apply(self.function, ToolCall(self.definition, arguments))

    def implementation(self) -> Implementation:
        """Return what the registry runs."""
        run = functools.partial(self._parameters.apply, self.function)
        asynchronous = is_async(self.function)
        direct = self._parameters.direct(self.function) if asynchronous else None
        return Implementation(run, asynchronous=asynchronous, coroutine_function=direct)


@overload
def tool(function: Callable[..., Any], /) -> FunctionTool: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    tags: Iterable[str] | None = None,
    category: str | None = None,
    annotations: Annotations | None = None,
    defer_loading: bool | None = None,
) -> Callable[[Callable[..., Any]], FunctionTool]: ...


def tool(
    function: Callable[..., Any] | None = None, /, **overrides: Any
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """Make a tool of a function, sync or async; use as ``@tool`` or ``@tool(name=..., tags=...)``.

    Types may be anything pydantic understands. ``Annotated[int, "what it means"]`` and the
    docstring describe parameters. A parameter of type `ToolCall` receives the call itself and is
    not part of the schema.

    Raises:
        InvalidToolError: when the signature cannot be expressed as a JSON Schema.
    """
    if function is None:
        return functools.partial(FunctionTool.of, **overrides)
    return FunctionTool.of(function, **overrides)
