"""Which files belong to one tenant of a JSON store."""

import hashlib
from pathlib import Path
from typing import NamedTuple

__all__ = ["JsonPaths", "paths_of"]

MAX_QUOTED = 120
# No capitals: some file systems take `A` and `a` for the same. No dots: no tenant can have the
# name of another's state.
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789_-")


class JsonPaths(NamedTuple):
    """The files of one tenant; at rest there are only the first two."""

    tools: Path
    state: Path
    """What is not about tools in the file: values of other rooms, usage of other tools."""
    journal: Path
    """What was written since the two were; also what is locked."""

    @property
    def folder(self) -> Path:
        """Where all of them are."""
        return self.tools.parent


def paths_of(path: Path, tenant: str | None = None) -> JsonPaths:
    """Return the files of a tenant; without one, those of whoever has the file itself."""
    # Through a link, or a rename would replace the link and leave the file behind.
    path = path.resolve()
    if tenant is not None:
        path = path.with_name(f"{path.stem}.{_quoted(tenant)}{path.suffix}")
    return JsonPaths(
        tools=path,
        state=path.with_name(f"{path.stem}.state{path.suffix}"),
        journal=path.with_name(f"{path.name}.journal"),
    )


def _quoted(tenant: str) -> str:
    if tenant == "state":
        return "%73tate"
    quoted = "".join(chr(it) if it in _PLAIN else f"%{it:02x}" for it in tenant.encode())
    if len(quoted) <= MAX_QUOTED:
        return quoted
    # No quoted name begins like that.
    return f"~{hashlib.sha256(tenant.encode()).hexdigest()}"
