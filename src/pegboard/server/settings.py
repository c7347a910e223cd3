"""What the configuration file says about the gateway itself, beside its servers."""

import os
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from pegboard.config import locate_config, read_jsonc
from pegboard.config.paths import value_at
from pegboard.errors import ConfigError
from pegboard.gateway import GatewayOptions

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
    path, content = _read(source)
    section: object = value_at(content, (SECTION,)) or {}
    if not isinstance(section, Mapping):
        raise ConfigError("`gateway` is an object.", path=path)
    said = {
        key: value
        for key, value in cast("Mapping[str, Any]", section).items()
        if key not in _ELSEWHERE
    }
    tenants = said.pop("tenants", {})
    unknown = sorted(said.keys() - {it.name for it in msgspec.structs.fields(GatewayOptions)})
    if unknown:
        raise ConfigError(f"`gateway` knows no {', '.join(unknown)}.", path=path)
    try:
        settings = msgspec.convert({"options": said, "tenants": tenants}, GatewaySettings)
    except msgspec.ValidationError as error:
        problem = str(error).replace("`$.options", "`gateway").replace("`$", "`gateway")
        raise ConfigError(f"`gateway` cannot be used: {problem}.", path=path) from error
    return _beside(settings, path)


def _read(
    source: str | os.PathLike[str] | Mapping[str, Any] | None,
) -> tuple[str | None, object]:
    if isinstance(source, Mapping):
        return None, source
    found = locate_config(source)
    if found.path is None:
        return None, {}
    return str(found.path), read_jsonc(found.path).root.value


def _beside(settings: GatewaySettings, path: str | None) -> GatewaySettings:
    """Take the files of the tenants as beside the file that names them."""
    if path is None:
        return settings
    home = os.path.dirname(path)  # noqa: PTH120 - joined with what may be absolute
    tenants = {name: os.path.join(home, it) for name, it in settings.tenants.items()}  # noqa: PTH118
    return msgspec.structs.replace(settings, tenants=tenants)
