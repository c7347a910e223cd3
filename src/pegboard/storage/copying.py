"""Copy everything of a tenant from one store to another, of whatever kind they are."""

import msgspec

from pegboard.storage.leases import LEASES
from pegboard.storage.store import OnProgress, Store

__all__ = ["Copied", "copy_store"]


class Copied(msgspec.Struct, frozen=True, kw_only=True):
    """What was copied."""

    tools: int
    used: int
    values: int


def copy_store(source: Store, target: Store, *, on_progress: OnProgress | None = None) -> Copied:
    """Copy tools, usage and values; what the target has under the same names is replaced.

    The tools arrive all or none.

    Raises:
        StorageError: when one of them cannot be read or written.
    """
    tools = source.load_all()
    target.save_many(tools, on_progress=on_progress)
    usage = source.usage()
    if usage:
        target.set_usage(usage)
    values = 0
    for name in source.namespaces():
        # Who does which job now is nobody's business elsewhere.
        if name != LEASES:
            found = source.namespace(name).items()
            target.namespace(name).put_many({key: it.value for key, it in found.items()})
            values += len(found)
    return Copied(tools=len(tools), used=len(usage), values=values)
