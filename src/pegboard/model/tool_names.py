"""Tool names: check and match names, and give each tool of a server one legal exposed name."""

import difflib
import fnmatch
import hashlib
import logging
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import accumulate, count, islice, takewhile
from typing import Literal, TypeAlias, get_args

from pegboard.errors import InvalidToolError, PegboardError, ToolConflictError, ToolNotFoundError
from pegboard.model.fork_guard import GuardedLock

__all__ = [
    "Identity",
    "NameTable",
    "Naming",
    "NamingOption",
    "OnConflict",
    "check_name",
    "double_underscore",
    "legal_name",
    "mcp",
    "mcp_short",
    "name_matcher",
    "naming_of",
    "nearest_names",
    "plain",
    "prefixed",
]

logger: logging.Logger = logging.getLogger("pegboard.model")

MAX_LENGTH = 64
"""Characters of an exposed name that every client takes."""
MAX_NAME_LENGTH = 512
"""Characters of a name as a server may give it."""
_LEGAL = re.compile(rf"[A-Za-z0-9_-]{{1,{MAX_LENGTH}}}")
_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")
_FIELD = re.compile(r"\{(server|tool)\}")
_HASH_LENGTH = 8
# Comparing short names costs about 10 µs each: enough candidates for a good hint.
_MAX_COMPARED = 500
# Each pair of characters may cost 0.1 µs, and names of few different letters do.
_MAX_PAIRS = 100_000
_END = 64
# Reading costs about 2 µs a name.
MAX_READ = 20_000
"""So many names are read to find similar ones."""
_SEPARATORS = str.maketrans("", "", "_-./: ")
_FAR = 0.2
"""A name that is less similar than the best by so much is not suggested."""

Identity: TypeAlias = tuple[str, str]
"""The name of a tool's server and the tool's name there, whatever name it is exposed by."""

Naming: TypeAlias = Callable[[str, str], str]
"""Gives a tool of a server a name, which need not be legal or unique."""

NamingOption: TypeAlias = Naming | str
"""A naming policy, its name, or a template such as ``"{server}__{tool}"``."""

OnConflict: TypeAlias = Literal["raise", "skip", "override", "rename"]
"""What to do when a name is taken: raise an error, leave the new tool out, replace the old tool, or
give the new tool another name."""


def check_name(name: object) -> str:
    """Return the name, or raise `InvalidToolError` saying what is wrong with it."""
    if not isinstance(name, str):
        raise InvalidToolError(f"A tool's name must be a string, not {type(name).__name__!r}.")
    plain = str.__str__(name)
    if not plain.strip():
        raise InvalidToolError("A tool's name must not be empty or blank.")
    if len(plain) > MAX_NAME_LENGTH:
        raise InvalidToolError(
            f"A tool's name has at most {MAX_NAME_LENGTH} characters; this one has {len(plain)}."
        )
    if not plain.isprintable():
        raise InvalidToolError(f"A tool's name must be printable: {plain!r}.")
    return plain


def name_matcher(option: str, patterns: Iterable[str]) -> Callable[[str], bool]:
    """Return a function that tells whether a name matches one of the glob patterns."""
    if isinstance(patterns, str):
        # A bare string would be read as a list of one-letter patterns.
        raise TypeError(f"`{option}` takes a list of patterns: [{patterns!r}].")
    # An empty alternation would match every name; a class without members matches none.
    either = "|".join(fnmatch.translate(pattern) for pattern in patterns) or r"[^\s\S]"
    pattern = re.compile(either)
    return lambda name: pattern.match(name) is not None


def nearest_names(
    name: object,
    names: Iterable[str],
    *,
    limit: int = 3,
    cutoff: float = 0.6,
    may_tell: Callable[[str], bool] = lambda _: True,
) -> list[str]:
    """Return the names most like the given one, best first; few or none when nothing is close.

    Only the first `MAX_READ` names are read: put those first that may be alike.

    Args:
        name: what was asked for.
        names: what there is.
        limit: how many names are returned.
        cutoff: how much alike they must be, from 0 to 1.
        may_tell: tells whether a name may be returned; it is asked only of names that are alike.
    """
    if not isinstance(name, str) or len(name) > MAX_NAME_LENGTH:
        return []
    wanted = _squash(name)
    squashed = _squashed(list(islice(names, MAX_READ)))
    exact = [other for other, form in squashed.items() if form == wanted and may_tell(other)]
    if exact:
        return exact[:limit]
    are_few = len(squashed) <= _MAX_COMPARED
    alike = (
        (form, other)
        for other, form in squashed.items()
        if (are_few or _may_resemble(wanted, form)) and may_tell(other)
    )
    by_form = dict(islice(alike, _MAX_COMPARED))
    close = difflib.get_close_matches(wanted, _comparable(wanted, by_form), n=limit, cutoff=cutoff)
    alike = [difflib.SequenceMatcher(None, form, wanted).ratio() for form in close]
    return [by_form[form] for form, it in zip(close, alike, strict=True) if it > alike[0] - _FAR]


def mcp(server: str, tool: str) -> str:
    """Name a tool ``mcp_{server}_{tool}``, with ``_`` for each ``-`` of the server."""
    return f"mcp_{server.replace('-', '_')}_{tool}"


def mcp_short(server: str, tool: str) -> str:
    """Name a tool as `mcp` does, but without the server's name at the beginning of its own name."""
    own = server.replace("-", "_")
    start, mark, rest = tool[: len(own)], tool[len(own) : len(own) + 1], tool[len(own) + 1 :]
    repeats = start.replace("-", "_").lower() == own.lower() and mark in ("_", "-")
    return mcp(server, rest if repeats and rest else tool)


def double_underscore(server: str, tool: str) -> str:
    """Name a tool ``{server}__{tool}``."""
    return f"{server}__{tool}"


def plain(server: str, tool: str) -> str:
    """Name a tool as its server does."""
    return tool


def prefixed(prefix: str) -> Naming:
    """Return the policy that puts a fixed prefix before the tool's own name."""

    def name(server: str, tool: str) -> str:
        return prefix + tool

    return name


_BY_NAME: Mapping[str, Naming] = {
    "mcp": mcp,
    "mcp_short": mcp_short,
    "double_underscore": double_underscore,
    "plain": plain,
}


def naming_of(option: NamingOption) -> Naming:
    """Return a naming policy by its name or its template; a function is returned as it is.

    Raises:
        ValueError: when there is no policy of that name.
    """
    if not isinstance(option, str):
        return option
    if "{tool}" in option:
        return _template(option)
    try:
        return _BY_NAME[option]
    except KeyError:
        known = ", ".join(repr(name) for name in _BY_NAME)
        raise ValueError(
            f"No naming policy is called {option!r}; known are {known}, "
            "and templates that contain `{tool}`."
        ) from None


def legal_name(name: str, identity: Identity) -> str:
    """Return the name if every client takes it, or else a similar one with a hash.

    The hash is that of the identity, so names that differ only in what had to be changed or cut
    stay different, and each tool has the same name in every run.
    """
    return name if _LEGAL.fullmatch(name) else _with_hash(name, identity)


class NameTable:
    """Gives each identity one legal name, and finds the identity by that name.

    A name stays with its identity until it is released. Safe to use from any number of threads.

    Args:
        naming: the naming policy.
        on_conflict: what to do when two identities want the same name.
        taken: tells whether a name is in use outside of the table.
    """

    def __init__(
        self,
        naming: NamingOption = "mcp",
        *,
        on_conflict: OnConflict = "rename",
        taken: Callable[[str], bool] | None = None,
    ) -> None:
        if on_conflict not in get_args(OnConflict):
            raise ValueError(
                f"`on_conflict` is one of {get_args(OnConflict)}, not {on_conflict!r}."
            )
        self._naming = naming_of(naming)
        self._on_conflict: OnConflict = on_conflict
        self._taken = taken
        self._names: dict[Identity, str] = {}
        self._origins: dict[str, Identity] = {}
        self._nameless: dict[Identity, str] = {}
        # Re-entrant, because a naming policy or `taken` may look into the table.
        self._lock = GuardedLock("name table")

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, exposed: object) -> bool:
        return exposed in self._origins

    def assign(self, server: str, tool: str, *, wanted: str | None = None) -> str | None:
        """Return the name of a tool, the one it has or a new one; ``None`` if it was left out.

        Args:
            server: the server it comes from.
            tool: its name there.
            wanted: a name from an earlier run, taken if it is legal and free.

        Raises:
            ToolConflictError: when the name is taken and conflicts are to be raised.
            InvalidToolError: when the naming policy fails, or gives something that is not a string.
        """
        identity = (server, tool)
        with self._lock:
            held = self._names.get(identity)
            if held is not None:
                return held
            if wanted is not None and _LEGAL.fullmatch(wanted) and self._is_free(wanted):
                return self._give(wanted, identity)
            name = self.policy_name(server, tool)
            if self._is_free(name):
                return self._give(name, identity)
            return self._settle(name, identity)

    def origin(self, exposed: str) -> Identity:
        """Return the server and the original name of the tool that has this name.

        Raises:
            ToolNotFoundError: when no tool has it.
        """
        identity = self._origins.get(exposed)
        if identity is None:
            raise ToolNotFoundError(exposed, nearest=nearest_names(exposed, list(self._origins)))
        return identity

    def policy_name(self, server: str, tool: str) -> str:
        """Return the legal name that the policy gives a tool, whether or not it is taken.

        Raises:
            InvalidToolError: when the naming policy fails, or gives something that is not a string.
        """
        try:
            name: object = self._naming(server, tool)
        except PegboardError:
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {error}".removesuffix(": ")
            raise InvalidToolError(
                f"The naming policy failed for tool {tool!r} of server {server!r}: {reason}."
            ) from error
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidToolError(
                f"The naming policy gave {type(name).__name__!r} for tool {tool!r} of server "
                f"{server!r}; it must give a string."
            )
        return legal_name(name, (server, tool))

    def exposed(self, server: str, tool: str) -> str | None:
        """Return the name a tool has, or ``None`` if it has none."""
        return self._names.get((server, tool))

    def release(self, server: str, tool: str) -> str | None:
        """Remove a tool and return the name that is free now, if the tool had one."""
        with self._lock:
            self._nameless.pop((server, tool), None)
            name = self._names.pop((server, tool), None)
            if name is not None:
                del self._origins[name]
            return name

    def assigned(self) -> dict[Identity, str]:
        """Return the name of every identity that has one, to be stored for the next run."""
        return dict(self._names)

    def nameless(self) -> dict[Identity, str]:
        """Return every identity that was left out or overridden, and the name it lost."""
        return dict(self._nameless)

    def _is_free(self, name: str) -> bool:
        return name not in self._origins and not (self._taken is not None and self._taken(name))

    def _give(self, name: str, identity: Identity) -> str:
        self._names[identity] = name
        self._origins[name] = identity
        self._nameless.pop(identity, None)
        return name

    def _settle(self, name: str, identity: Identity) -> str | None:
        match self._on_conflict:
            case "raise":
                raise ToolConflictError(name)
            case "rename":
                return self._give(self._free_name(name, identity), identity)
            case "skip":
                return self._leave_out(name, identity)
            case "override":
                return self._override(name, identity)

    def _leave_out(self, name: str, identity: Identity) -> None:
        if identity not in self._nameless:
            logger.warning("tool_skipped: the name %r is taken; server=%r tool=%r", name, *identity)
        self._nameless[identity] = name

    def _override(self, name: str, identity: Identity) -> str | None:
        # A tool that was overridden does not come back while the other is there: two servers that
        # are listed in turn would take the name from each other for ever.
        if self._nameless.get(identity) == name:
            return None
        loser = self._origins.get(name)
        if loser is not None:
            del self._names[loser]
            self._nameless[loser] = name
            logger.warning("tool_overridden: lost the name %r; server=%r tool=%r", name, *loser)
        return self._give(name, identity)

    def _free_name(self, name: str, identity: Identity) -> str:
        for attempt in count():
            free = _with_hash(name, identity, attempt)
            if self._is_free(free):
                return free
        raise AssertionError("Counting never ends.")


def _template(text: str) -> Naming:
    # Not `str.format`, which would look into attributes and choke on other braces.
    def name(server: str, tool: str) -> str:
        return _FIELD.sub(lambda field: server if field[1] == "server" else tool, text)

    return name


def _with_hash(name: str, identity: Identity, attempt: int = 0) -> str:
    words = "\0".join(identity) + (f"\0{attempt}" if attempt else "")
    # Any string can be a name on a wire, half a surrogate pair included.
    digest = hashlib.sha256(words.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_LENGTH]
    kept = _ILLEGAL.sub("_", name[: MAX_LENGTH - _HASH_LENGTH - 1])
    return f"{kept}_{digest}"


def _squash(name: str) -> str:
    return name.translate(_SEPARATORS).lower()


def _squashed(names: list[str]) -> dict[str, str]:
    # All at once: one by one takes fifteen times as long.
    forms = _squash("\n".join(names)).split("\n")
    if len(forms) != len(names):
        # A name that no tool has may be of several lines.
        forms = [_squash(name) for name in names]
    return dict(zip(names, forms, strict=True))


def _comparable(wanted: str, forms: Collection[str]) -> Collection[str]:
    """Return the forms, or of too many those that begin and end most like the name."""
    most = _MAX_PAIRS // max(1, len(wanted))
    if sum(map(len, forms)) <= most:
        return forms
    alike = sorted(forms, key=lambda form: _shared_ends(wanted, form), reverse=True)
    return [
        form for form, size in zip(alike, accumulate(map(len, alike)), strict=True) if size <= most
    ]


def _shared_ends(one: str, other: str) -> int:
    ends = ((one[:_END], other[:_END]), (one[: -_END - 1 : -1], other[: -_END - 1 : -1]))
    return sum(len(list(takewhile(_are_equal, zip(*both, strict=False)))) for both in ends)


def _are_equal(pair: tuple[str, str]) -> bool:
    return pair[0] == pair[1]


def _may_resemble(wanted: str, other: str) -> bool:
    # Cheap, so that one unknown name among 100,000 tools does not cost a second.
    return abs(len(wanted) - len(other)) <= max(2, len(wanted) // 2) and (
        wanted[:2] == other[:2] or wanted[-3:] == other[-3:] or wanted in other
    )
