"""Cache of what MCP registries have answered: small files, bounded in number and size."""

import hashlib
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import platformdirs

from pegboard.config.atomic_write import make_folder, remove_leftovers, replace_file

__all__ = ["CachedResponse", "ResponseCache"]

MOST_FILES = 300
MOST_BYTES = 20_000_000
_LARGEST = 8_000_000


class CachedResponse(msgspec.Struct, frozen=True, kw_only=True):
    """What a registry answered, and when."""

    registry: str
    request: str
    """The path and query."""
    at: float
    body: msgspec.Raw


class ResponseCache:
    """Responses by registry and request; the least recent ones go first.

    What cannot be read or written is as if it were not there: the registry is asked again.
    """

    def __init__(
        self, folder: Path | None = None, *, files: int = MOST_FILES, size: int = MOST_BYTES
    ) -> None:
        self._folder = folder or platformdirs.user_state_path("pegboard", appauthor=False) / (
            "registry"
        )
        self._files = files
        self._size = size

    def put(self, registry: str, request: str, body: bytes) -> None:
        """Keep a response, which is JSON."""
        kept = CachedResponse(
            registry=registry, request=request, at=time.time(), body=msgspec.Raw(body)
        )
        with suppress(OSError):
            make_folder(self._folder)
            replace_file(self._path(registry, request), msgspec.json.encode(kept))
            remove_leftovers(self._folder)
            self._trim()

    def get(self, registry: str, request: str) -> CachedResponse | None:
        """Return the response to a request, however old it is."""
        found = _read(self._path(registry, request))
        is_it = found is not None and (found.registry, found.request) == (registry, request)
        return found if is_it else None

    def all_of(self, registry: str) -> Iterator[CachedResponse]:
        """Give every response of a registry, the latest first."""
        for path in reversed(self._paths()):
            found = _read(path)
            if found is not None and found.registry == registry:
                yield found

    def _path(self, registry: str, request: str) -> Path:
        key = hashlib.sha256(f"{registry}\n{request}".encode("utf-8", "surrogatepass"))
        return self._folder / f"{key.hexdigest()[:32]}.json"

    def _paths(self) -> list[Path]:
        """Return the files, the oldest first."""
        with suppress(OSError):
            dated = [(it.stat().st_mtime_ns, it) for it in self._folder.glob("*.json")]
            return [path for _, path in sorted(dated)]
        return []

    def _trim(self) -> None:
        left = self._size
        for number, path in enumerate(reversed(self._paths())):
            with suppress(OSError):
                left -= path.stat().st_size
                if number >= self._files or left < 0:
                    path.unlink()


def _read(path: Path) -> CachedResponse | None:
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST + 1)
        return None if len(content) > _LARGEST else _decoder.decode(content)
    except (OSError, ValueError, RecursionError, msgspec.MsgspecError):
        return None


_decoder = msgspec.json.Decoder(CachedResponse)
