"""What makes two entries the same server, whatever they are called."""

import re
from collections.abc import Iterable, Mapping

from pegboard.config.servers import ServerConfig

__all__ = ["Identity", "identity_of", "same_among"]

Identity = tuple[str, ...]
"""Transport, address or command line, and what it is given."""

_FETCHING = frozenset({"bunx", "docker", "npx", "podman", "uvx"})
"""They run what they fetch, and that is the same wherever they are started."""
_RELATIVE = ("./", "../", ".\\", "..\\")
_INPUT = re.compile(r"\$\{input:[^{}]*\}")


def identity_of(config: ServerConfig) -> Identity:
    """Return what two entries of one server have in common."""
    if config.transport == "stdio":
        words = (config.command or "", *config.args)
        where = (config.cwd or "") if _depends_on_folder(words) else ""
        return "stdio", where, *words, *_pairs(config.env)
    headers = {name.lower(): value for name, value in config.headers.items()}
    if config.bearer_token:
        headers.setdefault("authorization", f"Bearer {config.bearer_token}")
    return "address", (config.url or "").rstrip("/"), *_pairs(headers)


def same_among(identity: Identity, others: Iterable[Identity]) -> Identity | None:
    """Return the one that is the same; whatever answers a question of VS Code fits it."""
    others = list(others)
    if identity in others:
        return identity
    if not any(_INPUT.search(it) for it in identity):
        return None
    patterns = [_INPUT.split(it) for it in identity]
    for other in others:
        if len(other) == len(patterns) and all(map(_fits, patterns, other)):
            return other
    return None


def _fits(parts: list[str], text: str) -> bool:
    """Tell whether a text has these parts in their order, with something between every two."""
    first, *rest = parts
    if not rest:
        return text == first
    if not text.startswith(first):
        return False
    place = len(first)
    for part in rest[:-1]:
        # As early as possible, which leaves most to the others.
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
