"""Read the section `registry` of a file: which MCP registry is asked, and what may be added."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, cast

import msgspec
from msgspec import Meta

from pegboard.config.files.jsonc import read_jsonc
from pegboard.config.problems import shown_key, value_at
from pegboard.errors import ConfigError
from pegboard.model.tool_names import nearest_names

__all__ = [
    "REGISTRY",
    "REGISTRY_VARIABLE",
    "RegistrySettings",
    "read_registry_settings",
    "registry_settings_of",
]

REGISTRY = "registry"
"""The name of the section."""
REGISTRY_VARIABLE = "PEGBOARD_REGISTRY"
_Patterns = Annotated[tuple[str, ...], Meta(max_length=1000)]


class RegistrySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Which MCP registry is asked for servers, and which servers are allowed."""

    url: Annotated[
        str | None,
        Meta(
            description="The URL of the MCP registry that `pegboard find` and `pegboard add` ask, "
            "without `/v0.1`. `PEGBOARD_REGISTRY` and `--registry` override it. By default, it is "
            "the official one."
        ),
    ] = None
    allow_http: Annotated[
        bool,
        Meta(
            description="Ask a registry on another machine without TLS. Others may then change "
            "its answers."
        ),
    ] = False
    allow: Annotated[
        _Patterns,
        Meta(
            description="Glob patterns of the servers that may be used, however they were added: "
            "`io.github.acme/*`, `npm:@acme/*`, `pypi:acme-*`, `oci:ghcr.io/acme/*`, "
            "`https://mcp.acme.com/*` or `command:/opt/tools/*`. Empty allows all."
        ),
    ] = ()
    deny: Annotated[
        _Patterns,
        Meta(description="Glob patterns of the servers that may not be used; overrides `allow`."),
    ] = ()
    registries: Annotated[
        _Patterns,
        Meta(
            description="Glob patterns of the URLs of registries that servers may be added from. "
            "Empty allows any."
        ),
    ] = ()


def read_registry_settings(content: object, *, path: str | None = None) -> RegistrySettings:
    """Return the section of a file that was read.

    Raises:
        ConfigError: when it cannot be used. A list that cannot be read must not allow everything.
    """
    section = value_at(content, (REGISTRY,))
    if section is None:
        return RegistrySettings()
    known = RegistrySettings.__struct_fields__
    for key in cast("Mapping[str, object]", section) if isinstance(section, Mapping) else ():
        if key not in known and not key.startswith(("_", "$", "//", "#")):
            near = nearest_names(key, known, limit=1)
            hint = f" Did you mean `{near[0]}`?" if near else ""
            problem = f"`{REGISTRY}` has no setting `{shown_key(key)}`.{hint}"
            raise ConfigError(problem, path=path)
    try:
        return msgspec.convert(section, RegistrySettings)
    except msgspec.ValidationError as error:
        words = str(error).replace("`$", f"`{REGISTRY}")
        raise ConfigError(f"`{REGISTRY}` cannot be used: {words}.", path=path) from None


def registry_settings_of(
    path: Path, *, environ: Mapping[str, str] | None = None
) -> RegistrySettings:
    """Return the section of a file, or the defaults if the file does not exist.

    The environment variable ``PEGBOARD_REGISTRY`` overrides ``url``.

    Raises:
        ConfigError: when the file or the section cannot be used.
    """
    environ = os.environ if environ is None else environ
    content: object = read_jsonc(path).value if path.exists() else None
    settings = read_registry_settings(content, path=str(path))
    named = environ.get(REGISTRY_VARIABLE)
    return msgspec.structs.replace(settings, url=named) if named else settings
