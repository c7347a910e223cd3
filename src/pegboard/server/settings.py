"""Gateway settings: the section ``gateway`` of the configuration file, and its schema."""

import ast
import inspect
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec

from pegboard.auth.key_record import check_tenant
from pegboard.auth.settings import AuthSettings, TokenIssuer
from pegboard.config import Document, Position, locate_config, read_jsonc
from pegboard.config.problems import shown_path, value_at
from pegboard.errors import ConfigError
from pegboard.gateway import GatewayOptions, Profile
from pegboard.model.principal import DEFAULT_TENANT
from pegboard.model.tool_names import naming_of, nearest_names
from pegboard.server.http.request import Limits
from pegboard.server.http.routes import route_of

__all__ = ["GatewaySettings", "load_gateway_settings", "section_schema", "section_text"]

SECTION = "gateway"
SEARCH_METHOD = "PEGBOARD_SEARCH_METHOD"
_ELSEWHERE = frozenset({"auth"})
"""Settings in this section that `pegboard.auth` reads."""
_BESIDE = ("naming", "tenants", "limits")
"""Settings in this section that are no `GatewayOptions`."""


_KINDS = (GatewayOptions, Profile, AuthSettings, TokenIssuer, Limits)


class GatewaySettings(msgspec.Struct, frozen=True, kw_only=True):
    """The section ``gateway`` of a file."""

    options: GatewayOptions = GatewayOptions()
    naming: str = "mcp"
    """How the tools of servers are named: ``mcp``, ``mcp_short`` (the same, without a server's name
    that the tool's own name repeats), ``double_underscore``, ``plain``, or a template such as
    ``{server}-{tool}``."""
    tenants: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    """The configuration files of the further tenants, by tenant."""
    limits: Limits = Limits()
    """The limits of HTTP requests and sessions."""


def load_gateway_settings(
    source: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
) -> GatewaySettings:
    """Read the section ``gateway``: the fields of `GatewayOptions`, ``tenants`` and ``limits``.

    The environment variable ``PEGBOARD_SEARCH_METHOD`` overrides ``search_method`` of the file.

    Args:
        source: the file, its content, or ``None`` to look for the file as `load_servers` does.
        environ: instead of the environment of this process.

    Raises:
        ConfigError: when the section cannot be used.
    """
    environ = os.environ if environ is None else environ
    path, content, document = _read(source, environ)
    section: object = value_at(content, (SECTION,)) or {}
    if not isinstance(section, Mapping):
        raise ConfigError("`gateway` is an object.", path=path)
    found = cast("Mapping[str, Any]", section)
    for place, members, known in _objects(found):
        unknown = sorted(members.keys() - set(known))
        if unknown:
            raise _unknown_setting(unknown[0], place, known, path, document)
    said = {key: value for key, value in found.items() if key not in _ELSEWHERE}
    others = {key: said.pop(key) for key in _BESIDE if key in said}
    try:
        settings = msgspec.convert({"options": said, **others}, GatewaySettings)
    except msgspec.ValidationError as error:
        problem = str(error).replace("`$.options", "`gateway").replace("`$", "`gateway")
        raise ConfigError(f"`gateway` cannot be used: {problem}.", path=path) from error
    _check_naming(settings, path)
    _check_profiles(settings, path)
    _check_tenants(settings, path)
    return _with_environment(_beside(settings, path), environ)


def section_schema() -> dict[str, Any]:
    """Return the JSON schema definitions of the section; ``Gateway`` is the section itself."""
    _, definitions = msgspec.json.schema_components([*_KINDS, GatewaySettings])
    for kind in _KINDS:
        for field, words in _explanations(kind).items():
            definitions[kind.__name__]["properties"][field]["description"] = words
    section = definitions.pop("GatewayOptions")
    beside = definitions.pop("GatewaySettings")["properties"]
    tenants, naming = beside["tenants"], beside["naming"]
    words = _explanations(GatewaySettings)
    tenants["description"], naming["description"] = words["tenants"], words["naming"]
    section["properties"] |= {
        "auth": {"description": "Who is let in.", "$ref": "#/$defs/AuthSettings"},
        "naming": naming,
        "tenants": tenants,
        "limits": {"description": words["limits"], "$ref": "#/$defs/Limits"},
    }
    section["description"] = "What `pegboard serve` is told besides the servers."
    section["additionalProperties"] = False
    return {"Gateway": section, **definitions}


def section_text() -> str:
    """Return the schema as the text of the shipped file."""
    return json.dumps(section_schema(), indent=2, ensure_ascii=False) + "\n"


def _read(
    source: str | os.PathLike[str] | Mapping[str, Any] | None, environ: Mapping[str, str]
) -> tuple[str | None, object, Document | None]:
    if isinstance(source, Mapping):
        return None, source, None
    found = locate_config(source, environ=environ)
    if found.path is None:
        return None, {}, None
    document = read_jsonc(found.path)
    return str(found.path), document.value, document


def _objects(
    section: Mapping[str, Any],
) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any], list[str]]]:
    """Yield each object with settings: its place, its members, and the known names."""
    options = [it.name for it in msgspec.structs.fields(GatewayOptions)]
    yield (SECTION,), section, [*options, *_BESIDE, *_ELSEWHERE]
    limits: object = section.get("limits")
    if isinstance(limits, Mapping):
        known = [it.name for it in msgspec.structs.fields(Limits)]
        yield (SECTION, "limits"), cast("Mapping[str, Any]", limits), known
    profiles: object = section.get("profiles")
    if isinstance(profiles, Mapping):
        known = [it.name for it in msgspec.structs.fields(Profile)]
        for name, profile in cast("Mapping[str, object]", profiles).items():
            if isinstance(profile, Mapping):
                members = cast("Mapping[str, Any]", profile)
                yield (SECTION, "profiles", name), members, known


def _unknown_setting(
    name: str,
    within: tuple[str, ...],
    known: Sequence[str],
    path: str | None,
    document: Document | None,
) -> ConfigError:
    near = nearest_names(name, known, limit=1)
    hint = f"did you mean `{near[0]}`?" if near else f"it has {', '.join(known)}."
    place = _place_of(name, within, document)
    return ConfigError(
        f"`{shown_path(within)}` has no setting `{name[:64]}`; {hint}",
        path=path,
        line=None if place is None else place.line,
        column=None if place is None else place.column,
    )


def _place_of(name: str, within: tuple[str, ...], document: Document | None) -> Position | None:
    section = None if document is None else document.root.find(within)
    if document is None or section is None:
        return None
    return next((document.place(it.start) for it in section.members if it.key == name), None)


def _check_naming(settings: GatewaySettings, path: str | None) -> None:
    try:
        naming_of(settings.naming)
    except ValueError as error:
        raise ConfigError(f"`gateway.naming` cannot be used. {error}", path=path) from error


def _check_profiles(settings: GatewaySettings, path: str | None) -> None:
    for name in settings.options.profiles:
        place = route_of(f"/mcp-search/{name}", "search")
        # Clients resolve a path with dots to another path.
        if place is None or place.face.group != name or name in (".", ".."):
            words = "it is reached at `/mcp/<profile>`: give it a short name without `/`."
            raise ConfigError(f"`gateway.profiles` has {name[:64]!r}: {words}", path=path)


def _check_tenants(settings: GatewaySettings, path: str | None) -> None:
    for name in settings.tenants:
        try:
            check_tenant(name)
        except ValueError as error:
            raise ConfigError(f"`gateway.tenants` cannot be used: {error}", path=path) from error
        if name == DEFAULT_TENANT:
            words = "the servers of this tenant stand in this file itself, under `mcpServers`."
            raise ConfigError(f"`gateway.tenants` has {name!r}: {words}", path=path)


def _beside(settings: GatewaySettings, path: str | None) -> GatewaySettings:
    """Resolve the files of the tenants against the folder of the file that names them."""
    if path is None:
        return settings
    home = os.path.dirname(path)  # noqa: PTH120 - joined with what may be absolute
    tenants = {name: os.path.join(home, it) for name, it in settings.tenants.items()}  # noqa: PTH118
    return msgspec.structs.replace(settings, tenants=tenants)


def _with_environment(settings: GatewaySettings, environ: Mapping[str, str]) -> GatewaySettings:
    method = environ.get(SEARCH_METHOD)
    if not method:
        return settings
    options = msgspec.structs.replace(settings.options, search_method=method)
    return msgspec.structs.replace(settings, options=options)


def _explanations(kind: type) -> dict[str, str]:
    """Return the docstring below each field of a class."""
    (definition,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(definition, ast.ClassDef)
    found: dict[str, str] = {}
    for field, words in zip(definition.body, definition.body[1:], strict=False):
        match field, words:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(ast.Constant(value=str(text))):
                found[name] = " ".join(text.replace("``", "`").split())
            case _:
                pass
    return found
