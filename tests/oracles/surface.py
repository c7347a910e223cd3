"""The public surface of a package, read by `inspect`: classes, parameters, properties.

This file runs in the environments of other projects, too: it imports only the standard library.
"""

import enum
import importlib
import inspect
import types
from typing import Any

# Every class has them, or a library puts them there.
FOREIGN = {"object", "BaseModel", "ABC", "Generic", "Enum", "Exception", "BaseException", "dict"}


def surface(names: Any) -> dict[str, Any]:
    """Describe the public things of a namespace by name."""
    public = {key: it for key, it in vars(names).items() if not key.startswith("_")}
    return {key: described(it) for key, it in public.items()}


def described(thing: Any) -> Any:
    """Describe one thing: what a caller can write with it."""
    if isinstance(thing, type):
        return {
            "parameters": parameters(thing),
            "members": {key: member(it) for key, it in members(thing).items()},
        }
    return {"parameters": parameters(thing)} if callable(thing) else {"value": repr(thing)}


def members(cls: type) -> dict[str, Any]:
    """Return the public members of a class and of those of its bases that belong to it."""
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if base.__name__ in FOREIGN or base.__module__.split(".")[0] in ("builtins", "typing"):
            continue
        found |= {it: base.__dict__[it] for it in base.__dict__ if not it.startswith("_")}
        found |= {it: None for it in inspect.get_annotations(base) if it[0] != "_"}
    if issubclass(cls, enum.Enum):
        found = {it.name: it.value for it in cls}
    pydantic = {"model_config", "model_fields", "model_computed_fields", "model_post_init"}
    return {key: it for key, it in found.items() if key not in pydantic}


def member(thing: Any) -> Any:
    """Describe a method by its parameters, anything else as an attribute."""
    thing = getattr(thing, "__func__", thing)
    return parameters(thing) if inspect.isroutine(thing) else "attribute"


def parameters(thing: Any) -> list[list[Any]] | None:
    """Return name, kind and whether it has a default, for every parameter."""
    try:
        found = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return None
    return [[it.name, it.kind.name, it.default is not it.empty] for it in found]


def differences(real: dict[str, Any], ours: dict[str, Any]) -> list[str]:
    """List what a user of the real package can write and cannot write with ours, dotted."""
    found: list[str] = []
    for name, thing in real.items():
        if name not in ours:
            found.append(name)
            continue
        found += lost_parameters(name, thing.get("parameters"), ours[name].get("parameters"))
        known = ours[name].get("members", {})
        for key, it in thing.get("members", {}).items():
            if key not in known:
                found.append(f"{name}.{key}")
            elif isinstance(it, list) and isinstance(known[key], list):
                found += lost_parameters(f"{name}.{key}", it, known[key])
    return found


def lost_parameters(
    name: str, real: list[list[Any]] | None, ours: list[list[Any]] | None
) -> list[str]:
    """List the parameters that cannot be given by position or by keyword as before."""
    if not real or ours is None:
        return []
    kinds = {it[1] for it in ours}
    by_position = [it[0] for it in ours if it[1] in ("POSITIONAL_ONLY", "POSITIONAL_OR_KEYWORD")]
    found: list[str] = []
    for place, (parameter, kind, _) in enumerate(real):
        keyword_fits = any(it[0] == parameter for it in ours) or "VAR_KEYWORD" in kinds
        place_fits = by_position[place : place + 1] == [parameter] or (
            "VAR_POSITIONAL" in kinds and place >= len(by_position)
        )
        fits = {
            "POSITIONAL_ONLY": place < len(by_position) or "VAR_POSITIONAL" in kinds,
            "POSITIONAL_OR_KEYWORD": keyword_fits and place_fits,
            "KEYWORD_ONLY": keyword_fits,
        }.get(kind, kind in kinds)
        if not fits:
            found.append(f"{name}({parameter})")
    required = {it[0] for it in ours if not it[2] and not it[1].startswith("VAR")}
    given = {it[0] for it in real if not it[2]}
    found += [f"{name}(needs {it})" for it in sorted(required - given - {"self", "cls"})]
    return found


def public(*modules: str) -> Any:
    """Gather the public names of modules: those of `__all__`, or those that they define."""
    found: dict[str, Any] = {}
    for name in modules:
        module = importlib.import_module(name)
        own = [key for key, it in vars(module).items() if getattr(it, "__module__", "") == name]
        found |= {key: getattr(module, key) for key in getattr(module, "__all__", own)}
    return types.SimpleNamespace(**{key: it for key, it in found.items() if key[0] != "_"})
