"""The entry of a server in an MCP registry, `server.json`: its model, and how it is read."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, cast

import msgspec
from msgspec import Meta

from pegboard.errors import DirectoryResponseError
from pegboard.model.hidden_characters import visible_json
from pegboard.model.json_values import object_in

__all__ = [
    "SERVER_NAME",
    "VERSION",
    "DirectoryEntry",
    "ListedPage",
    "Package",
    "PackageArgument",
    "PackageTransport",
    "Remote",
    "UserInput",
    "ValueInput",
    "read_entry",
    "read_page",
]

SERVER_NAME: re.Pattern[str] = re.compile(
    r"(?=.{3,200}\Z)[A-Za-z0-9][A-Za-z0-9.-]*/[\w.-]+", re.ASCII
)
"""``namespace/name``: a reversed domain of the publisher, and the name of the server."""
VERSION: re.Pattern[str] = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+!_~-]{0,254}")
OFFICIAL = "io.modelcontextprotocol.registry/official"
PUBLISHER = "io.modelcontextprotocol.registry/publisher-provided"

_Word = Annotated[str, Meta(max_length=255)]
_Text = Annotated[str, Meta(max_length=4096)]
_Value = Annotated[str, Meta(max_length=4096)] | int | float | bool
_MOST = 64
_MOST_ENTRIES = 1000
_LONGEST_CURSOR = 2000
_HALF = 150
"""Characters that an error shows of the beginning and of the end of a reason."""


class UserInput(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A value that the person who adds the server gives, or that the entry gives."""

    description: _Text = ""
    is_required: bool = False
    format: _Word = "string"
    value: _Value | None = None
    """A fixed value; ``{name}`` in it stands for one of the ``variables``."""
    is_secret: bool = False
    default: _Value | None = None
    placeholder: _Text = ""
    choices: Annotated[tuple[_Value, ...], Meta(max_length=_MOST)] = ()


class ValueInput(UserInput, frozen=True, kw_only=True, rename="camel"):
    """An environment variable or a header: a name, and a value with variables of its own."""

    name: _Word = ""
    variables: Annotated[dict[_Word, UserInput], Meta(max_length=_MOST)] = msgspec.field(
        default_factory=dict[str, UserInput]
    )


class PackageArgument(ValueInput, frozen=True, kw_only=True, rename="camel"):
    """A word of the command line, behind the name of an option or by its position."""

    type: Literal["positional", "named"] = "positional"
    value_hint: _Word = ""
    is_repeated: bool = False


class PackageTransport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How a package speaks once it runs."""

    type: _Word = "stdio"
    url: _Text = ""


class Package(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A package that can be downloaded and run."""

    registry_type: _Word
    identifier: Annotated[str, Meta(max_length=2048, min_length=1)]
    version: _Word = ""
    registry_base_url: _Text = ""
    file_sha256: _Word = msgspec.field(default="", name="fileSha256")
    runtime_hint: _Word = ""
    transport: PackageTransport = PackageTransport()
    runtime_arguments: Annotated[tuple[PackageArgument, ...], Meta(max_length=_MOST)] = ()
    package_arguments: Annotated[tuple[PackageArgument, ...], Meta(max_length=_MOST)] = ()
    environment_variables: Annotated[tuple[ValueInput, ...], Meta(max_length=_MOST)] = ()


class Remote(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An address at which the server is reached."""

    type: _Word
    url: Annotated[str, Meta(max_length=2048, min_length=1)]
    headers: Annotated[tuple[ValueInput, ...], Meta(max_length=_MOST)] = ()
    variables: Annotated[dict[_Word, UserInput], Meta(max_length=_MOST)] = msgspec.field(
        default_factory=dict[str, UserInput]
    )


class _Repository(msgspec.Struct, frozen=True, kw_only=True):
    url: _Text = ""
    source: _Word = ""
    subfolder: _Text = ""


class _ServerJson(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: str
    version: str
    description: _Text = ""
    title: _Text = ""
    website_url: _Text = ""
    repository: _Repository = _Repository()
    packages: Annotated[tuple[Package, ...], Meta(max_length=_MOST)] = ()
    remotes: Annotated[tuple[Remote, ...], Meta(max_length=_MOST)] = ()


class DirectoryEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a server in an MCP registry; hidden characters are shown as escapes."""

    name: str
    version: str
    description: str = ""
    title: str = ""
    website: str = ""
    repository: str = ""
    licence: str = ""
    """As far as the publisher tells; the format has no field for it."""
    status: str = "active"
    """``active``, ``deprecated`` or ``deleted``."""
    status_message: str = ""
    published_at: str = ""
    packages: tuple[Package, ...] = ()
    remotes: tuple[Remote, ...] = ()

    @property
    def publisher(self) -> str:
        """The namespace of the name; the official registry checks that the publisher owns it."""
        return self.name.partition("/")[0]

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of packages, and ``remote`` where it has an address."""
        kinds = dict.fromkeys(it.registry_type for it in self.packages)
        return (*kinds, *(("remote",) if self.remotes else ()))


class ListedPage(msgspec.Struct, frozen=True, kw_only=True):
    """One page of a listing."""

    entries: tuple[DirectoryEntry, ...]
    unreadable: int = 0
    """How many entries of the page have a wrong shape, and were left out."""
    cursor: str = ""
    """What asks for the next page; empty on the last one."""


def read_entry(content: object, *, registry: str) -> DirectoryEntry:
    """Read the answer about one version of a server.

    Raises:
        DirectoryResponseError: when it has a wrong shape, or exceeds a limit.
    """
    wrapper = object_in(content)
    # The first versions of the API did not wrap it.
    body = wrapper.get("server", content)
    try:
        found = msgspec.convert(_cleaned(body), _ServerJson)
    except msgspec.ValidationError as error:
        # It may quote a value of the entry, and ends with the place of this value.
        words = " ".join(str(error).split())
        if len(words) > 2 * _HALF:
            words = f"{words[:_HALF]}…{words[-_HALF:]}"
        problem = f"The registry {registry} describes a server in a wrong way: {words}."
        raise DirectoryResponseError(problem, registry=registry) from None
    if not SERVER_NAME.fullmatch(found.name) or not VERSION.fullmatch(found.version):
        raise DirectoryResponseError(
            f"The registry {registry} has a server with an invalid name or version: "
            f"{found.name[:80]!r}, {found.version[:80]!r}.",
            registry=registry,
        )
    meta = object_in(wrapper.get("_meta")) or object_in(object_in(body).get("_meta"))
    official = object_in(meta.get(OFFICIAL))
    told = object_in(object_in(object_in(body).get("_meta")).get(PUBLISHER))
    return DirectoryEntry(
        name=found.name,
        version=found.version,
        description=_line(found.description),
        title=_line(found.title),
        website=_line(found.website_url),
        repository=_line(found.repository.url),
        licence=_first_text(object_in(body), told, fields=("license", "licence")),
        status=_first_text(official, object_in(body), fields=("status",)) or "active",
        status_message=_first_text(official, fields=("statusMessage",)),
        published_at=_first_text(official, fields=("publishedAt",)),
        packages=found.packages,
        remotes=found.remotes,
    )


def read_page(content: object, *, registry: str) -> ListedPage:
    """Read one page of a listing; entries with a wrong shape are left out and counted.

    Raises:
        DirectoryResponseError: when it is no page of a listing.
    """
    body = object_in(content)
    listed: object = body.get("servers")
    if not isinstance(listed, list):
        raise DirectoryResponseError(
            f"The registry {registry} has not answered with a list of servers. Is it the address "
            "of an MCP registry, without `/v0.1`?",
            registry=registry,
        )
    entries: list[DirectoryEntry] = []
    items = cast("list[object]", listed)[:_MOST_ENTRIES]
    for item in items:
        try:
            entries.append(read_entry(item, registry=registry))
        except DirectoryResponseError:
            continue
    metadata = object_in(body.get("metadata"))
    cursor: object = metadata.get("nextCursor") or metadata.get("next_cursor") or ""
    is_usable = isinstance(cursor, str) and len(cursor) <= _LONGEST_CURSOR
    return ListedPage(
        entries=tuple(entries),
        unreadable=len(items) - len(entries),
        cursor=cursor if is_usable and isinstance(cursor, str) else "",
    )


def _cleaned(value: object) -> object:
    """Return a value without nulls, which mean that a field is left out, nothing hidden in it."""
    return visible_json(_without_nulls(value))


def _without_nulls(value: object) -> object:
    if isinstance(value, dict):
        members = cast("dict[str, object]", value).items()
        return {key: _without_nulls(it) for key, it in members if it is not None}
    if isinstance(value, list):
        return [_without_nulls(it) for it in cast("list[object]", value) if it is not None]
    return value


def _first_text(*objects: Mapping[str, Any], fields: tuple[str, ...]) -> str:
    for members in objects:
        for field in fields:
            value: object = members.get(field)
            if isinstance(value, str) and value:
                return _line(str(visible_json(value)))
    return ""


def _line(text: str) -> str:
    return " ".join(text.split())[:1000]
