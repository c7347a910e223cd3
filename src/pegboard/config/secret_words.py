"""Which names and texts look as if they held a secret."""

import json
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple, cast
from urllib.parse import parse_qsl, unquote, urlsplit

__all__ = [
    "Suspect",
    "argument_secrets",
    "is_secret",
    "is_secret_name",
    "looks_like_token",
    "url_secrets",
    "words_of_command",
]

_LONGEST_NAME = 200
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SECRET = re.compile(
    r"(?:^|_)(?:\w*(?:token|secret|password|apikey)|passwd|pwd|passphrase|authorization|bearer"
    r"|cookie|credentials?|pat"
    r"|(?:api|access|private|auth|encryption|signing|service|license)_keys?)(?:_|$)"
)
# TOKEN_URL and PASSWORD_FILE say where a secret is, TOKEN_LIMIT speaks of something else.
_HARMLESS = re.compile(
    r"_(?:url|uri|file|path|dir|limit|count|type|name|id|ttl|expiry|timeout|endpoint|header"
    r"|budget|length|size|host|port|algorithm|issuer|prefix|env|scheme|stdin)$"
)
_TOKEN = re.compile(
    r"(?<![A-Za-z0-9])(?:gh[pousr]_|github_pat_|glpat-|sk-|pk_live_|sk_live_|xox[abprs]-|AKIA|AIza|npm_|hf_|eyJ)"
    r"[\w.\-]{12,}"
)
_RANDOM = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])\S{16,}")
# Too vague for a variable, but on a command line they mean what they say.
_SECRET_FLAGS = frozenset({"key", "auth", "pass"})
_WORD_OF_COMMAND = re.compile(r"""(?:"[^"]*"|'[^']*'|\S)+""")
_QUOTES = re.compile(r"""(["'])(.*?)\1""", re.DOTALL)
_FLAG = re.compile(r"--?([A-Za-z][\w-]*)(?:=(.*))?", re.DOTALL)
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.+)", re.DOTALL)
_HEADER = re.compile(r"([A-Za-z][\w-]*):\s*(.+)", re.DOTALL)
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]{0,20}://\S+")
# An identifier such as a UUID, or a long run of letters and digits without a hyphen.
_RANDOM_SEGMENT = re.compile(
    r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"
    r"|[\w\-]*?(?=(?:[A-Za-z]*[0-9]){3})[A-Za-z0-9]{16,}+[\w\-]*+",
    re.IGNORECASE,
)


class Suspect(NamedTuple):
    """A text that looks like a secret, and what it is called where it stands."""

    name: str
    value: str


@lru_cache(maxsize=1000)
def is_secret_name(name: str) -> bool:
    """Tell whether something of this name is a secret: ``GITHUB_TOKEN``, ``x-api-key``."""
    words = "_".join(_WORD.findall(name[:_LONGEST_NAME])).lower()
    return _SECRET.search(words) is not None and _HARMLESS.search(words) is None


def is_secret(name: str, value: str) -> bool:
    """Tell whether this value of something of this name is a secret: a `BRAVE_KEY`, say."""
    is_random_key = name.lower().endswith("key") and _RANDOM.fullmatch(value) is not None
    return is_random_key or is_secret_name(name)


def looks_like_token(text: str) -> bool:
    """Tell whether a text has the form of a well-known kind of token."""
    return _TOKEN.search(text) is not None


def argument_secrets(args: Sequence[str]) -> Iterator[tuple[int, Suspect]]:
    """Find secrets on a command line, each with the index of its argument."""
    name = ""
    for index, argument in enumerate(args):
        flag = _FLAG.fullmatch(argument)
        if name and not _is_option(argument) and _is_secret_argument(name, argument):
            yield index, Suspect(name, argument)
            flag = None
        if flag is not None and flag[2] is None:
            name = flag[1]
            continue
        name = ""
        for suspect in _within_argument(argument, argument if flag is None else flag[2]):
            yield index, suspect


def words_of_command(line: str) -> list[str]:
    """Split a command into words, in case somebody wrote the whole line into it."""
    return [_QUOTES.sub(r"\2", word) for word in _WORD_OF_COMMAND.findall(line)]


def url_secrets(url: str) -> Iterator[Suspect]:
    """Find secrets in an address: a password, a query such as ``?token=…``, a random path."""
    try:
        parts = urlsplit(url)
        user, password = parts.username, parts.password
    except ValueError:
        return
    for text in (password, None if password else user):
        if text:
            yield Suspect("password", text)
            yield Suspect("password", unquote(text))
    for pair in parts.query.split("&"):
        name, _, raw = pair.partition("=")
        if is_secret_name(name) or name.lower() in ("key", "sig", "signature", "code"):
            yield Suspect(name, raw)
            yield from (Suspect(name, value) for _, value in parse_qsl(pair))
    for segment in parts.path.split("/"):
        if _looks_random(segment):
            yield Suspect("path", segment)


def _looks_random(segment: str) -> bool:
    # Nobody names a thing in so many letters; besides, the pattern would take long.
    if len(segment) > _LONGEST_NAME:
        return True
    return _RANDOM_SEGMENT.fullmatch(segment) is not None or looks_like_token(segment)


def _is_option(argument: str) -> bool:
    # A password may begin with a hyphen, too.
    return argument.startswith("--") or (argument.startswith("-") and len(argument) <= len("-xy"))


def _is_secret_argument(name: str, value: str) -> bool:
    return name.lower() in _SECRET_FLAGS or is_secret(name, value)


def _within_argument(argument: str, value: str) -> Iterator[Suspect]:
    yield from _within_json(value)
    for form in (_FLAG, _ASSIGNMENT, _HEADER):
        for text in (argument, value):
            named = form.fullmatch(text)
            if named is not None and named[2] and _is_secret_argument(named[1], named[2]):
                yield Suspect(named[1], named[2])
                return
    yield from _within_text(value)


def _within_text(text: str) -> Iterator[Suspect]:
    if looks_like_token(text):
        yield Suspect("token", text)
    elif url := _URL.search(text):
        yield from url_secrets(url[0])


def _within_json(text: str) -> Iterator[Suspect]:
    waiting = [("", _parsed(text))]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, list):
            waiting += [
                it if isinstance(it, tuple) else (name, it)
                for it in cast("list[tuple[str, object] | str]", value)
            ]
        elif isinstance(value, str):
            if _is_secret_argument(name, value):
                yield Suspect(name, value)
            else:
                yield from _within_text(value)
            # People quote JSON once more to bring it through a shell.
            waiting.append((name, _parsed(value)))


def _parsed(text: str) -> object:
    """Return what is in JSON, each object as a list of pairs; of other texts, nothing."""
    if not text.lstrip().startswith(("{", "[", '"')):
        return None
    try:
        return json.loads(text, object_pairs_hook=list, strict=False)
    except (ValueError, RecursionError):
        return None
