"""FunctionTool: make a tool of a Python function, from its signature and docstring."""

import functools
import inspect
from collections.abc import Callable, Iterable
from types import MethodType
from typing import Any, Generic, ParamSpec, TypeVar, overload

from pegboard.errors import InvalidToolError
from pegboard.model import Annotations, Tool, ToolCall
from pegboard.model.tool import DefinedTool
from pegboard.registry.functions.parameters import Parameters, read_docstring
from pegboard.registry.functions.types import output_schema
from pegboard.registry.implementation import Implementation, is_async

__all__ = ["FunctionTool", "RegisterDecorator", "tool"]

_OPTIONS = ("name", "description", "tags", "category", "annotations", "defer_loading")


P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])


class FunctionTool(DefinedTool, Generic[P, R]):
    """A function with its tool definition; calling it calls the function.

    In a class it is a method like any other: register it from an instance.
    """

    def __init__(
        self,
        function: Callable[P, R],
        definition: Tool,
        parameters: Parameters,
        *,
        unbound: bool = False,
    ) -> None:
        functools.update_wrapper(self, function, updated=())
        self.function: Callable[P, R] = function
        self.definition: Tool = definition
        self._parameters = parameters
        self._unbound = unbound

    @classmethod
    def of(cls, function: Callable[P, R], **overrides: Any) -> "FunctionTool[P, R]":
        """Read a function's signature and docstring; `overrides` are fields of `Tool`."""
        if isinstance(function, classmethod | staticmethod):
            kind = "classmethod" if isinstance(function, classmethod) else "staticmethod"
            raise InvalidToolError(f"Write `@tool` below `@{kind}`, not above it.")
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
        unbound = _is_unbound_method(function, signature)
        if unbound:
            _, *rest = signature.parameters.values()
            signature = signature.replace(parameters=rest)
        docs = read_docstring(function)
        parameters = Parameters(signature, tool=name, described=docs.parameters)
        fields: dict[str, Any] = {
            "description": docs.description,
            "input_schema": parameters.schema,
            "output_schema": output_schema(signature.return_annotation),
        }
        fields.update({key: value for key, value in overrides.items() if value is not None})
        return cls(function, Tool(name=name, **fields), parameters, unbound=unbound)

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself."""
        return self.function(*args, **kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> "FunctionTool[..., R]":
        """Bind to an instance, as methods do."""
        if instance is None or not self._unbound:
            return self
        bound: Callable[..., R] = MethodType(self.function, instance)
        return FunctionTool(bound, self.definition, self._parameters)

    def __repr__(self) -> str:
        return f"<tool {self.definition.name!r}: {self.function!r}>"

    def call(self, arguments: dict[str, Any]) -> Any:
        """Run the function with JSON arguments, converted to the types it asks for."""
        return self._parameters.apply(self.function, ToolCall(self.definition, arguments))

    def implementation(self) -> Implementation:
        """Return the implementation for the registry.

        Raises:
            InvalidToolError: when it is a method without its instance.
        """
        if self._unbound:
            raise InvalidToolError(
                f"Tool {self.name!r} is a method; register it from an instance: "
                f"`instance.{self.function.__name__}`."
            )
        run = functools.partial(self._parameters.apply, self.function)
        return Implementation(run, asynchronous=is_async(self.function))


def _is_unbound_method(function: object, signature: inspect.Signature) -> bool:
    first = next(iter(signature.parameters.values()), None)
    outer, _, _ = getattr(function, "__qualname__", "").rpartition(".")
    return (
        inspect.isfunction(function)
        and first is not None
        and first.name in ("self", "cls")
        and first.annotation is first.empty
        and bool(outer)
        and not outer.endswith("<locals>")
    )


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    tags: Iterable[str] | None = None,
    category: str | None = None,
    annotations: Annotations | None = None,
    defer_loading: bool | None = None,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(
    function: Callable[..., Any] | None = None, /, **overrides: Any
) -> FunctionTool[..., Any] | Callable[[Callable[..., Any]], FunctionTool[..., Any]]:
    """Make a tool of a function, sync or async; use as ``@tool`` or ``@tool(name=..., tags=...)``.

    Types may be anything pydantic understands. ``Annotated[int, "what it means"]`` and the
    docstring describe parameters. A parameter of type `ToolCall` receives the call itself and is
    not part of the schema.

    Raises:
        InvalidToolError: when the signature cannot be expressed as a JSON Schema.
    """
    unknown = set(overrides).difference(_OPTIONS)
    if unknown:
        raise TypeError(
            f"Unknown option {', '.join(sorted(unknown))}; known are {', '.join(_OPTIONS)}. "
            "Hints such as idempotent go into `annotations=Annotations(idempotent=True)`."
        )
    make: Callable[[Callable[..., Any]], FunctionTool[..., Any]]
    make = functools.partial(FunctionTool[..., Any].of, **overrides)
    return make if function is None else make(function)


class RegisterDecorator:
    """The decorator of a registry: it registers a function and returns the function itself."""

    def __init__(self, register: Callable[[object], object]) -> None:
        self._register = register

    @overload
    def __call__(self, function: F, /) -> F: ...

    @overload
    def __call__(
        self,
        /,
        *,
        name: str | None = None,
        description: str | None = None,
        tags: Iterable[str] | None = None,
        category: str | None = None,
        annotations: Annotations | None = None,
        defer_loading: bool | None = None,
    ) -> Callable[[F], F]: ...

    def __call__(
        self, function: Callable[..., Any] | None = None, /, **overrides: Any
    ) -> Callable[..., Any]:
        """Register a function as the tool that `tool` makes of it, and return it unchanged.

        Raises:
            InvalidToolError: when the signature cannot be expressed as a JSON Schema.
            ToolConflictError: when the name is taken.
        """
        make: Callable[[Callable[..., Any]], object]
        if function is None:
            make = tool(**overrides)
        elif callable(function):
            make = _tool_of
        else:
            raise TypeError(
                f"`@registry.tool` takes a function, not {type(function).__name__!r}; "
                "options go by name: `@registry.tool(name=...)`."
            )

        def register(it: Callable[..., Any]) -> Callable[..., Any]:
            self._register(make(it))
            return it

        return register if function is None else register(function)


def _tool_of(function: Callable[..., Any]) -> object:
    # What `@tool` made keeps the options that it was given.
    return function if type(function) is FunctionTool else tool(function)
