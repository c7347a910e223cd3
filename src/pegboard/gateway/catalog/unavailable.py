"""Unavailable: what a caller is told of a configured server without any known tool.

A caller that may only find or call tools learns the state of the server. The reason is for callers
that may operate the gateway, and so is a match with the server's command or address.
"""

from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from pegboard.errors.servers import without_name
from pegboard.gateway.visibility import Visibility
from pegboard.hub import UnavailableServer
from pegboard.hub.missing_tools import condition_of
from pegboard.model.hidden_characters import visible
from pegboard.policies import may_operate
from pegboard.search.methods.typos import SHORTEST, TypoIndex
from pegboard.search.text.words import query_words, words_of
from pegboard.upstream import ServerState

__all__ = ["Unavailable", "data_of", "meant_by", "told_of"]

_MOST = 5
"""How many servers one answer tells of."""
_LONGEST_REASON = 300
_ENDS = (".", "!", "?", "…")
_GENERAL = (
    "mcp server tool api app com org net io dev www http https localhost search web file data "
    "get list read write create update delete query python python3 py node npx npm uv uvx pipx "
    "docker podman run bin usr local home src dist build index main js ts sh env latest stdio"
)
"""Words that many names, commands and addresses have, so that they point to no single server."""


class Unavailable(msgspec.Struct, frozen=True, kw_only=True):
    """What one caller is told of a server without any known tool."""

    server: str
    state: str
    reason: str = ""

    def __str__(self) -> str:
        words = f"Server {self.server!r} is {condition_of(self.state)}"
        if self.is_starting:
            return f"{words}; try again in a moment."
        words = f"{words}: {self.reason}" if self.reason else words
        return words if words.endswith(_ENDS) else f"{words}."

    @property
    def is_starting(self) -> bool:
        """True when its tools may appear soon."""
        return self.state == ServerState.STARTING

    @property
    def data(self) -> dict[str, str]:
        """The same as structured content."""
        return {key: value for key, value in msgspec.structs.asdict(self).items() if value}


def meant_by(
    text: str,
    servers: Iterable[UnavailableServer],
    visibility: Visibility,
    *,
    also: Collection[str] = (),
) -> list[Unavailable]:
    """Return what a caller is told of the servers that a question or a name points to.

    Args:
        text: the question or the name.
        servers: the servers without any tool.
        visibility: which of them the caller may know.
        also: the names of servers that are meant in any case.
    """
    words, sees_all = _Words(text), may_operate(visibility.principal)
    known = (it for it in servers if visibility.knows_server(it.name, it.tags))
    meant = [it for it in known if it.name in also or words.mean(it, by_target=sees_all)]
    return told_of(meant[:_MOST], visibility)


def told_of(servers: Iterable[UnavailableServer], visibility: Visibility) -> list[Unavailable]:
    """Return what a caller is told of servers, without those that it may not know."""
    sees_reason = may_operate(visibility.principal)
    return [
        Unavailable(server=it.name, state=it.state, reason=_reason(it) if sees_reason else "")
        for it in servers
        if visibility.knows_server(it.name, it.tags)
    ]


def data_of(servers: Sequence[Unavailable]) -> dict[str, Any]:
    """Return the field of structured content that tells of servers, or nothing."""
    return {"unavailable": [it.data for it in servers]} if servers else {}


class _Words:
    """The words of a question, or of a name."""

    def __init__(self, text: str) -> None:
        self._text = text.lower()
        self._squashed = _squash(text)
        found = query_words(text)
        self._terms = frozenset(found.counts)
        self._spelled = frozenset(found.spelled.values())

    def mean(self, server: UnavailableServer, *, by_target: bool) -> bool:
        """Tell whether the words point to a server."""
        if server.prefix and self._text.startswith(server.prefix.lower()):
            return True
        name = _squash(server.name)
        if len(name) > SHORTEST and len(_terms(server.name)) > 1 and name in self._squashed:
            return True
        texts = (server.name, server.prefix, _place(server.target) if by_target else "")
        return any(map(self._have, texts))

    def _have(self, name: str) -> bool:
        special = _terms(name) - _general()
        if not special:
            # A name such as `web-search`: only all of its words point to it.
            terms = _terms(name) - {"mcp"}
            return bool(terms) and terms <= self._terms
        return not special.isdisjoint(self._terms) or self._nearly_has(name)

    def _nearly_has(self, name: str) -> bool:
        index, swapped = _misspelt(name)
        return any(
            index.near(it) if len(it) >= SHORTEST - 1 and it not in swapped else it in swapped
            for it in self._spelled
        )


@lru_cache(maxsize=1024)
def _terms(name: str) -> frozenset[str]:
    return frozenset(it for it in words_of(name, prose=False) if len(it) > 1 and not it.isdigit())


@lru_cache(maxsize=1)
def _general() -> frozenset[str]:
    return _terms(_GENERAL)


@lru_cache(maxsize=1024)
def _misspelt(name: str) -> tuple[TypoIndex, frozenset[str]]:
    """Return the spellings of a name, and its words of four letters with two of them swapped."""
    index, swapped = TypoIndex(), set[str]()
    for term, word in query_words(name).spelled.items():
        if term in _general():
            continue
        index.add(word)
        if len(word) == SHORTEST - 1 and word.isalpha():
            swapped |= {f"{word[:i]}{word[i + 1]}{word[i]}{word[i + 2 :]}" for i in range(1, 3)}
    return index, frozenset(swapped)


def _place(target: str) -> str:
    """Return what identifies a server in its command line or address: no folders, no options."""
    words = [it for it in target.split() if not it.startswith("-")]
    return " ".join(it if "://" in it else it.rstrip("/").rpartition("/")[2] for it in words)


def _squash(name: str) -> str:
    return "".join(it for it in name.lower() if it.isalnum())


def _reason(server: UnavailableServer) -> str:
    """Return why a server cannot be used, on one line, without its name at the beginning."""
    line = without_name(server.name, " ".join(visible(server.reason).split()))
    return line if len(line) <= _LONGEST_REASON else f"{line[: _LONGEST_REASON - 1]}…"
