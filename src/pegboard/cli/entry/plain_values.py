"""Convert plain option values without pydantic, whose import would slow every command.

Importing pydantic takes longer than what most commands do.
"""

from typing import Any

from typer import core
from typer._click import Context  # pyright: ignore[reportPrivateUsage]
from typer._coercion import (  # pyright: ignore[reportPrivateUsage]
    RuntimeParam,
    TypeDescriptor,
    build_runtime_param,
)

__all__ = ["spare_pydantic"]

_DIGITS = 18


def spare_pydantic() -> None:
    """Take plain values as they are, and let typer look at all others as it always does.

    Raises:
        AttributeError: when typer has changed.
    """
    # It is not one of the names that typer promises to keep.
    module: Any = core
    if module.build_runtime_param is not _plain_first:
        module.build_runtime_param = _plain_first


def _plain_first(descriptor: TypeDescriptor) -> RuntimeParam:
    return _PlainFirst(parameter_info=descriptor.parameter_info, annotation=descriptor.annotation)


class _PlainFirst(RuntimeParam):
    def _coerce_value(self, value: Any, param: Any, ctx: Context) -> Any:
        info = self.parameter_info
        is_limited = info.min is not None or info.max is not None
        plain = None if is_limited else _plain(value, self.annotation)
        if plain is not None:
            return plain
        told: TypeDescriptor = param.type_descriptor
        return build_runtime_param(told)._coerce_value(value, param=param, ctx=ctx)


def _plain(value: object, annotation: Any) -> object:
    """Return a value of the type that is wanted; ``None`` where that takes more than a look."""
    if annotation in (str, bool, int) and type(value) is annotation:
        return value
    if annotation is int and isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value) if len(value) <= _DIGITS else None
    if annotation == list[str] and isinstance(value, list | tuple):
        items: list[object] = list(value)  # pyright: ignore[reportUnknownArgumentType]
        return items if all(type(it) is str for it in items) else None
    return None
