"""The identity of a server: find duplicate entries, whatever their names are."""

import re
from collections.abc import Mapping
from typing import cast

from pegboard.config.servers import ServerConfig

__all__ = ["Identity", "KnownServers", "differing_fields", "identity_of", "is_same"]

Identity = tuple[str, ...]
"""The transport, the address or command line, and the variables or headers."""

_FETCHING = frozenset({"bunx", "docker", "npx", "podman", "uvx"})
"""These programs run a downloaded package, which is the same in every folder."""
_RELATIVE = ("./", "../", ".\\", "..\\")
_NOT_OF_AN_ENTRY = frozenset(
    {"enabled", "name", "naming", "registry", "secrets", "server", "shared_env"}
)
_INPUT = re.compile(r"\$\{input:[^{}]*\}")


def identity_of(config: ServerConfig) -> Identity:
    """Return the identity of a server: two entries of the same server have the same one."""
    if config.transport == "stdio":
        words = (config.command or "", *config.args)
        where = (config.cwd or "") if _depends_on_folder(words) else ""
        # The number of words separates them from variables that look like words.
        return "stdio", where, str(len(words)), *words, *_pairs(config.env)
    headers = {name.lower(): value for name, value in config.headers.items()}
    if config.bearer_token:
        headers.setdefault("authorization", f"Bearer {config.bearer_token}")
    if config.tls is not None and config.tls.client_cert:
        # Like a token: it may belong to another account. A header has no such name.
        headers["client certificate"] = config.tls.client_cert
    return "address", (config.url or "").rstrip("/"), *_pairs(headers)


def is_same(identity: Identity, other: Identity) -> bool:
    """Tell whether two identities are one server; any text matches an ``${input:ID}``."""
    patterns = (_INPUT.split(it) for it in identity)
    return len(identity) == len(other) and all(map(_fits, patterns, other))


def differing_fields(one: ServerConfig, other: ServerConfig) -> list[str]:
    """Return the fields in which two servers differ, such as ``cwd`` and ``env.TOKEN``."""
    found: list[str] = []
    for field in ServerConfig.__struct_fields__:
        if field in _NOT_OF_AN_ENTRY:
            continue
        ours, theirs = getattr(one, field), getattr(other, field)
        if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
            pairs = cast("list[Mapping[str, str]]", [ours, theirs])
            names = dict.fromkeys(it for some in pairs for it in some)
            found += [f"{field}.{it}" for it in names if pairs[0].get(it) != pairs[1].get(it)]
        elif ours != theirs:
            found.append("type" if field == "transport" else field)
    return found


class KnownServers:
    """An index of server names by identity, fast for any number of servers."""

    def __init__(self, identities: Mapping[str, Identity]) -> None:
        """Add servers, by name."""
        self._names: dict[Identity, list[str]] = {}
        self._alike: dict[tuple[int, ...], dict[Identity, list[Identity]]] = {}
        for name, identity in identities.items():
            self.add(identity, name)

    def add(self, identity: Identity, name: str) -> None:
        """Add a server."""
        is_new = identity not in self._names
        self._names.setdefault(identity, []).append(name)
        for shape in self._alike if is_new else ():
            self._sort_in(shape, identity)

    def names_of(self, identity: Identity) -> list[str]:
        """Return the names of the same server."""
        if identity in self._names:
            return self._names[identity]
        asked = [index for index, it in enumerate(identity) if _INPUT.search(it)]
        if not asked:
            return []
        shape = (len(identity), *asked)
        if shape not in self._alike:
            self._alike[shape] = {}
            for other in self._names:
                self._sort_in(shape, other)
        alike = self._alike[shape].get(_without(identity, asked), ())
        same = next((it for it in alike if is_same(identity, it)), None)
        return [] if same is None else self._names[same]

    def _sort_in(self, shape: tuple[int, ...], identity: Identity) -> None:
        length, *asked = shape
        if len(identity) == length:
            self._alike[shape].setdefault(_without(identity, asked), []).append(identity)


def _without(identity: Identity, places: list[int]) -> Identity:
    return tuple(it for index, it in enumerate(identity) if index not in places)


def _fits(parts: list[str], text: str) -> bool:
    """Tell whether a text has these parts in their order, with something between every two."""
    first, *rest = parts
    if not rest:
        return text == first
    if not text.startswith(first):
        return False
    place = len(first)
    for part in rest[:-1]:
        # The earliest match leaves the most text for the other parts.
        place = text.find(part, place + 1)
        if place < 0:
            return False
        place += len(part)
    return text.endswith(rest[-1]) and len(text) - len(rest[-1]) > place


def _depends_on_folder(words: tuple[str, ...]) -> bool:
    program = re.split(r"[/\\]", words[0])[-1].lower()
    if re.sub(r"\.(exe|cmd)$", "", program) not in _FETCHING:
        return True
    return any(it in (".", "..") or it.startswith(_RELATIVE) for it in words)


def _pairs(values: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in sorted(values.items())]
