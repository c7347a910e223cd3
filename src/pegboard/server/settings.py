"""What the configuration file says about the gateway itself, beside its servers."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from pegboard.config import Document, Place, locate_config, read_jsonc
from pegboard.config.paths import value_at
from pegboard.errors import ConfigError
from pegboard.gateway import GatewayOptions
from pegboard.model.names import nearest_names

__all__ = ["GatewaySettings", "load_gateway_settings"]

SECTION = "gateway"
_ELSEWHERE = frozenset({"auth"})
"""What somebody else reads there."""


class GatewaySettings(msgspec.Struct, frozen=True, kw_only=True):
    """The section ``gateway`` of a file."""

    options: GatewayOptions = GatewayOptions()
    tenants: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    """The files with the servers of tenants besides the first, by tenant."""


def load_gateway_settings(
    source: str | os.PathLike[str] | Mapping[str, Any] | None = None,
) -> GatewaySettings:
    """Read ``gateway`` in the file with the servers: the fields of `GatewayOptions`, ``tenants``.

    Args:
        source: the file, what is in one, or ``None`` to look for it as `load_servers` does.

    Raises:
        ConfigError: when it cannot be used.
    """
    path, content, document = _read(source)
    section: object = value_at(content, (SECTION,)) or {}
    if not isinstance(section, Mapping):
        raise ConfigError("`gateway` is an object.", path=path)
    said = {
        key: value
        for key, value in cast("Mapping[str, Any]", section).items()
        if key not in _ELSEWHERE
    }
    tenants = said.pop("tenants", {})
    known = [it.name for it in msgspec.structs.fields(GatewayOptions)]
    unknown = sorted(said.keys() - set(known))
    if unknown:
        raise _unknown_setting(unknown[0], [*known, "tenants", *_ELSEWHERE], path, document)
    try:
        settings = msgspec.convert({"options": said, "tenants": tenants}, GatewaySettings)
    except msgspec.ValidationError as error:
        problem = str(error).replace("`$.options", "`gateway").replace("`$", "`gateway")
        raise ConfigError(f"`gateway` cannot be used: {problem}.", path=path) from error
    return _beside(settings, path)


def _read(
    source: str | os.PathLike[str] | Mapping[str, Any] | None,
) -> tuple[str | None, object, Document | None]:
    if isinstance(source, Mapping):
        return None, source, None
    found = locate_config(source)
    if found.path is None:
        return None, {}, None
    document = read_jsonc(found.path)
    return str(found.path), document.root.value, document


def _unknown_setting(
    name: str, known: Sequence[str], path: str | None, document: Document | None
) -> ConfigError:
    near = nearest_names(name, known, limit=1)
    hint = f"did you mean `{near[0]}`?" if near else f"it has {', '.join(known)}."
    place = _place_of(name, document)
    return ConfigError(
        f"`gateway` has no setting `{name[:64]}`; {hint}",
        path=path,
        line=None if place is None else place.line,
        column=None if place is None else place.column,
    )


def _place_of(name: str, document: Document | None) -> Place | None:
    section = None if document is None else document.root.find((SECTION,))
    if document is None or section is None:
        return None
    return next((document.place(it.start) for it in section.members if it.key == name), None)


def _beside(settings: GatewaySettings, path: str | None) -> GatewaySettings:
    """Take the files of the tenants as beside the file that names them."""
    if path is None:
        return settings
    home = os.path.dirname(path)  # noqa: PTH120 - joined with what may be absolute
    tenants = {name: os.path.join(home, it) for name, it in settings.tenants.items()}  # noqa: PTH118
    return msgspec.structs.replace(settings, tenants=tenants)
