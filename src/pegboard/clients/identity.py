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
    patterns = [".+".join(map(re.escape, _INPUT.split(it))) for it in identity]
    for other in others:
        if len(other) == len(patterns) and all(
            re.fullmatch(pattern, text, re.DOTALL)
            for pattern, text in zip(patterns, other, strict=True)
        ):
            return other
    return None


def _depends_on_folder(words: tuple[str, ...]) -> bool:
    program = re.split(r"[/\\]", words[0])[-1].lower()
    if re.sub(r"\.(exe|cmd)$", "", program) not in _FETCHING:
        return True
    return any(it in (".", "..") or it.startswith(_RELATIVE) for it in words)


def _pairs(values: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in sorted(values.items())]
