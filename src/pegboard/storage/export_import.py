"""Export a store to a JSON archive, import the archive, and copy one store to another."""

from collections.abc import Iterable, Iterator
from typing import Any, Literal

import msgspec

from pegboard.errors import StorageError
from pegboard.model import Usage
from pegboard.storage.buckets import BUCKETS
from pegboard.storage.encoding import check_tenant, decode_tool, encode_tool
from pegboard.storage.leases import LEASES
from pegboard.storage.store import OnProgress, Store, StoredTool

__all__ = [
    "Archive",
    "ArchivedTenant",
    "ArchivedTool",
    "Copied",
    "archived",
    "copy_store",
    "read_archive",
    "restore",
]

_OF_THIS_STORE = {BUCKETS, LEASES}
"""Namespaces that are not copied: who does a job here, and who made how many calls just now."""


class ArchivedTool(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool in the format of a JSON store's entry."""

    tool: msgspec.Raw
    extras: dict[str, Any] = {}


class ArchivedTenant(msgspec.Struct, frozen=True, kw_only=True):
    """Everything of one tenant."""

    tenant: str
    tools: list[ArchivedTool]
    usage: dict[str, Usage]
    values: dict[str, dict[str, Any]]
    """By namespace and key."""


class Archive(msgspec.Struct, frozen=True, kw_only=True):
    """The content of an archive."""

    format: Literal["pegboard-archive"] = "pegboard-archive"
    version: Literal[1] = 1
    tenants: list[ArchivedTenant]


class Copied(msgspec.Struct, frozen=True, kw_only=True):
    """How much was copied."""

    tools: int
    used: int
    values: int


def copy_store(source: Store, target: Store, *, on_progress: OnProgress | None = None) -> Copied:
    """Copy tools, usage and values; the target's data under the same names is replaced.

    Either all tools are copied, or none.

    Raises:
        StorageError: when one of the stores cannot be read or written.
    """
    tools = source.load_all()
    target.save_many(tools, on_progress=on_progress)
    usage = source.usage()
    if usage:
        target.set_usage(usage)
    values = 0
    for name in source.namespaces():
        if name not in _OF_THIS_STORE:
            found = source.namespace(name).items()
            target.namespace(name).put_many({key: it.value for key, it in found.items()})
            values += len(found)
    return Copied(tools=len(tools), used=len(usage), values=values)


def archived(stores: Iterable[Store]) -> Archive:
    """Return an archive of these stores, one tenant each; empty ones are left out.

    Raises:
        StorageError: when a store cannot be read.
    """
    found = [_tenant(store) for store in stores]
    return Archive(tenants=[it for it in found if it.tools or it.usage or it.values])


def read_archive(text: bytes, *, name: str) -> Archive:
    """Return the archive in a document; ``name`` is the name of the document in an error.

    Raises:
        StorageError: when the document is not an archive.
    """
    try:
        archive = msgspec.json.decode(text, type=Archive)
        for it in archive.tenants:
            check_tenant(it.tenant)
    except (ValueError, RecursionError) as error:
        raise StorageError(
            f"{name} is not an archive of Pegboard: {str(error).rstrip('.')}. "
            "`pegboard store export` writes one. It is not a data file of RegistryTools either.",
            url=name,
        ) from error
    return archive


def restore(
    archived: ArchivedTenant, store: Store, *, on_progress: OnProgress | None = None
) -> Copied:
    """Restore everything of one tenant; the store's data under the same names is replaced.

    Either all tools are restored, or none.

    Raises:
        StorageError: when the store cannot be written, or does not accept a value.
    """
    try:
        store.save_many(_tools(archived), on_progress=on_progress)
        if archived.usage:
            store.set_usage(archived.usage)
        for name, values in archived.values.items():
            store.namespace(name).put_many(values)
    except ValueError as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError(
            f"{store.url} cannot hold the archive: {error}", url=store.url
        ) from error
    return Copied(
        tools=len(archived.tools),
        used=len(archived.usage),
        values=sum(map(len, archived.values.values())),
    )


def _tenant(store: Store) -> ArchivedTenant:
    tools = store.load_all()
    return ArchivedTenant(
        tenant=store.tenant,
        tools=[
            ArchivedTool(tool=msgspec.Raw(encode_tool(it.tool)), extras=dict(it.extras))
            for it in tools
        ],
        usage=store.usage(),
        values={
            name: {key: it.value for key, it in store.namespace(name).items().items()}
            for name in store.namespaces()
            if name not in _OF_THIS_STORE
        },
    )


def _tools(archived: ArchivedTenant) -> Iterator[StoredTool]:
    for it in archived.tools:
        # A copy, or each tool would keep the whole archive in memory.
        yield StoredTool(tool=decode_tool(bytes(it.tool)), extras=it.extras)
