"""What a scenario came to, as JSON, so that two programs can be compared.

This file runs in the environments of other projects, too: it imports only the standard library.
"""

import asyncio
import contextlib
import dataclasses
import datetime
import enum
import functools
import inspect
import logging
import pathlib
from collections.abc import Callable, Generator, Mapping
from typing import Any

Scenario = Callable[[Any], Any]


def run(scenario: Scenario, names: Any) -> Any:
    """Give the names of one side to a scenario, and tell what came of it."""
    try:
        value = scenario(names)
        if inspect.isawaitable(value):
            value = asyncio.run(_finished(value))
    except BaseException as error:
        return raised(error)
    return told(value)


async def _finished(value: Any) -> Any:
    return await asyncio.wait_for(value, 60)


def raised(error: BaseException) -> dict[str, Any]:
    """Return the names of the classes by which an error can be caught, the narrowest first."""
    general = {"Exception", "BaseException", "object"}
    return {"raises": [it.__name__ for it in type(error).__mro__ if it.__name__ not in general]}


def caught(action: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return what an action gives, or how it fails, for a scenario that goes on after that."""
    try:
        return action(*args, **kwargs)
    except Exception as error:
        return raised(error)


@contextlib.contextmanager
def logged() -> Generator[list[str]]:
    """Collect the levels of what is logged meanwhile."""
    levels: list[str] = []

    class _Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            levels.append(record.levelname)

    handler, root = _Collector(), logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        yield levels
    finally:
        root.removeHandler(handler)
        root.setLevel(level)


@functools.singledispatch
def told(value: Any) -> Any:
    """Write a value as JSON that tells its type apart from similar ones."""
    name = type(value).__name__
    if callable(dump := getattr(value, "model_dump", None)):
        return {"object": name, "fields": told(dump())}
    if dataclasses.is_dataclass(value):
        fields = {it.name: told(getattr(value, it.name)) for it in dataclasses.fields(value)}
        return {"object": name, "fields": fields}
    if inspect.isroutine(value) or isinstance(value, functools.partial):
        return {"callable": getattr(value, "__name__", "partial")}
    return {"object": name}


@told.register
def _(value: bool | int | str | None) -> Any:
    return value


@told.register
def _(value: enum.Enum) -> Any:
    return {"enum": f"{type(value).__name__}.{value.name}", "value": told(value.value)}


@told.register
def _(value: float) -> Any:
    return {"float": f"{value:.9g}"}


@told.register
def _(value: bytes) -> Any:
    return {"bytes": value.hex()}


@told.register
def _(value: datetime.datetime) -> Any:
    return {"time": value.isoformat(), "aware": value.tzinfo is not None}


@told.register
def _(value: pathlib.PurePath) -> Any:
    return {"path": str(value)}


@told.register
def _(value: set | frozenset) -> Any:  # pyright: ignore[reportMissingTypeArgument, reportUnknownParameterType]
    return {"set": sorted((told(it) for it in value), key=repr)}


@told.register
def _(value: tuple) -> Any:  # pyright: ignore[reportMissingTypeArgument, reportUnknownParameterType]
    return {"tuple": [told(it) for it in value]}


@told.register
def _(value: list) -> Any:  # pyright: ignore[reportMissingTypeArgument, reportUnknownParameterType]
    return [told(it) for it in value]


@told.register
def _(value: Mapping) -> Any:  # pyright: ignore[reportMissingTypeArgument, reportUnknownParameterType]
    return {str(key): told(it) for key, it in value.items()}


@told.register
def _(value: type) -> Any:
    return {"class": value.__name__}


@told.register
def _(value: BaseException) -> Any:
    return {"error": raised(value)["raises"]}


def same(real: Any, ours: Any) -> bool:
    """Tell whether a user of the real system would notice a difference.

    An error may be narrower than the real one, as long as what caught the real one catches it.
    """
    match real, ours:
        case {"raises": [narrowest, *_]}, {"raises": list()}:
            return narrowest in ours["raises"]
        case dict(), dict():
            return real.keys() == ours.keys() and all(same(real[it], ours[it]) for it in real)
        case list(), list():
            return len(real) == len(ours) and all(map(same, real, ours))
        case _:
            return type(real) is type(ours) and real == ours
