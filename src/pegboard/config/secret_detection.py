"""Detect secrets by their name or form: passwords, tokens, API keys, in commands and addresses."""

import binascii
import json
import re
import string
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple, cast
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

__all__ = [
    "Suspect",
    "argument_secrets",
    "encodings_of",
    "is_harmless",
    "is_harmless_json",
    "is_numeric_secret",
    "is_secret",
    "is_secret_name",
    "looks_like_token",
    "looks_random",
    "parts_of_secret",
    "proxy_secrets",
    "secrets_in",
    "url_secrets",
    "words_of_command",
]

_SAME_EVERYWHERE = re.compile(r"[A-Za-z0-9_.~\-]*")
_KEPT_IN_ADDRESSES = string.punctuation.translate(str.maketrans("", "", '"<>'))


def encodings_of(text: str) -> Iterator[str]:
    """Yield a text as it appears plain, in JSON, in JSON inside JSON, in Python and in URLs."""
    yield text
    if _SAME_EVERYWHERE.fullmatch(text):
        return
    yield repr(text)[1:-1]
    for escaped in (_in_json(text), json.dumps(text, ensure_ascii=False)[1:-1]):
        yield escaped
        yield _in_json(escaped)
    for kept in ("", "/"):
        yield quote(text, safe=kept, errors="surrogatepass")
        yield quote_plus(text, safe=kept, errors="surrogatepass")
    # HTTP clients correct an address: they quote illegal characters, and leave the rest.
    yield quote(text, safe=_KEPT_IN_ADDRESSES, errors="surrogatepass")


def _in_json(text: str) -> str:
    return json.dumps(text)[1:-1]


_LONGEST_NAME = 200
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SECRET = re.compile(
    r"(?:^|_)(?:\w*(?:token|secret|password|apikey)|passwd|pwd|passphrase|authorization|bearer"
    r"|cookie|credentials?|pat"
    r"|(?:api|access|account|private|auth|encryption|signing|service|license)_keys?)(?:_|$)"
    r"|(?:^|_)(?:pass|pw|jwt)$"
)
# TOKEN_URL and PASSWORD_FILE say where a secret is; TOKEN_LIMIT is about something else.
_HARMLESS = re.compile(
    r"_(?:url|uri|file|path|dir|limit|count|type|name|id|ttl|expiry|timeout|endpoint|header"
    r"|budget|length|size|host|port|algorithm|issuer|prefix|env|scheme|stdin)$"
)
# MAX_TOKEN and ACCESS_TOKEN_EXPIRE_MINUTES are numbers that need not be hidden.
_DIGITS = re.compile(r"[0-9]{4,}")
_COUNTING = re.compile(r"(?:^|_)(?:max|maximum|min|minimum|num|number|count|limit|total|per)_")
_AT_THE_END = re.compile(
    r"(?:token|secret|pass|password|passwd|pwd|pw|passphrase|authorization|bearer|cookie"
    r"|credentials?|pat|jwt|keys?)(?:_[0-9]+)?$"
)
_PIN = re.compile(r"(?:^|_)(?:pin|passcode)(?:_[0-9]+)?$")
_TOKEN = re.compile(
    r"(?<![A-Za-z0-9])(?:gh[pousr]_|github_pat_|glpat-|sk-|pk_live_|sk_live_|xox[abprs]-|AKIA|AIza|npm_|hf_|eyJ"
    r"|pb_[a-z0-9]{12}_(?=[0-9a-f]{64}))[\w.\-]{12,}"
)
_RANDOM = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])\S{16,}")
# Too vague for a variable, but on a command line they mean what they say.
_SECRET_FLAGS = frozenset({"key", "auth"})
_SCHEMES = frozenset({"apikey", "basic", "bearer", "digest", "token"})
_DEEPEST = 6
_WORD_OF_COMMAND = re.compile(r"""(?:"[^"]*"|'[^']*'|\S)+""")
_QUOTES = re.compile(r"""(["'])(.*?)\1""", re.DOTALL)
_SEPARATORS = re.compile(r"[\s;,&|]+")
_FLAG = re.compile(r"--?([A-Za-z][\w.-]*)")
# `--token=x`, `-eTOKEN=x`, `/token:x`, `TOKEN=x`, `Authorization: x`
_ASSIGNMENT = re.compile(r"(?:-e(?=[A-Z_])|--?|/)?([A-Za-z_][\w.-]*)(?:=|:\s*)(.+)", re.DOTALL)
_BEARER = re.compile(r"""\bbearer\s+([^\s"'\\,;]+)""", re.IGNORECASE)
_BASIC = re.compile(r"\bbasic\s+([A-Za-z0-9+/]{4,}={0,2})", re.IGNORECASE)
_VARIABLES = re.compile(r"(?:\$\{[^{}]*\})+")
# Words without a form: of these, only a known kind of token is a secret, and what a flag calls so.
_SIMPLE = re.compile(r"[A-Za-z0-9_./@+\-]*")
_SIMPLE_LINE = re.compile(r"[A-Za-z0-9_./@+\-\n]*")
# An address without user, query and long segments, of which one may be random.
_PLAIN_ADDRESS = re.compile(
    r"(?:https?|wss?)://[A-Za-z0-9.\-]+(?::[0-9]+)?(?:/[A-Za-z0-9_.\-]{0,14})*+"
)
_SIMPLE_JSON = re.compile(
    rf'(?:"(?:[A-Za-z0-9_./@+\-]*+|{_PLAIN_ADDRESS.pattern})"'
    r"|[\[\]{},:]|true|false|null|-?[0-9]++(?:\.[0-9]++)?)*+"
)
# Every name of a secret has one of these in it, and every well-known kind of token.
_HINT = re.compile(
    r"token|secret|pass|pwd|pw|auth|basic|bearer|cookie|credential|pat|key|jwt|pin"
    r"|gh[pousr]_|sk[-_]|pk_live_|xox|akia|aiza|npm_|hf_|eyj|pb_"
)
_SCHEME = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.\-]*:)?//")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]{0,20}://\S+")
# An identifier such as a UUID, or a long run of letters and digits without a hyphen.
_RANDOM_SEGMENT = re.compile(
    r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"
    r"|[\w\-]*?(?=(?:[A-Za-z]*[0-9]){3})[A-Za-z0-9]{16,}+[\w\-]*+",
    re.IGNORECASE,
)


class Suspect(NamedTuple):
    """A text that looks like a secret, and the name of the field or flag it was found in."""

    name: str
    value: str


@lru_cache(maxsize=1000)
def is_secret_name(name: str) -> bool:
    """Tell whether a name is that of a secret: ``GITHUB_TOKEN``, ``x-api-key``."""
    words = _words(name)
    return _SECRET.search(words) is not None and _HARMLESS.search(words) is None


def is_secret(name: str, value: str) -> bool:
    """Tell whether a value is a secret under this name, for example a random `BRAVE_KEY`."""
    if not name:
        return False
    is_random_key = name.lower().endswith("key") and _RANDOM.fullmatch(value) is not None
    return is_random_key or is_secret_name(name) or _is_pin(name, value)


def is_numeric_secret(name: str, value: str) -> bool:
    """Tell whether a number is a secret under this name, and not a count or a limit."""
    if not _DIGITS.fullmatch(value) or _COUNTING.search(words := _words(name)):
        return False
    return _is_pin(name, value) or (is_secret_name(name) and _AT_THE_END.search(words) is not None)


def looks_like_token(text: str) -> bool:
    """Tell whether a text has the form of a well-known kind of token."""
    return _TOKEN.search(text) is not None


def secrets_in(text: str, name: str = "") -> Iterator[Suspect]:
    """Yield the secrets in a value: the whole value, or parts of JSON, URLs, headers, commands."""
    waiting = [(0, name, text)]
    seen: set[tuple[int, str, str]] = set()
    while waiting:
        depth, name, text = step = waiting.pop()
        if not text or step in seen:
            continue
        seen.add(step)
        if _is_secret_argument(name, text):
            yield Suspect(name, text)
        if _SIMPLE.fullmatch(text) is not None:
            # It may be a token, but has no parts.
            for token in _TOKEN.findall(text):
                yield Suspect("token", token)
                yield Suspect("token", text)
            continue
        if _is_plain_address(text):
            continue
        yield from _by_their_form(text)
        if depth < _DEEPEST:
            parts = [(depth + 1, *part) for part in _parts(text)]
            waiting += reversed(parts)


def argument_secrets(args: Iterable[str]) -> Iterator[tuple[int, Suspect]]:
    """Find secrets on a command line, each with the index of its argument."""
    args = list(args)
    if is_harmless(args):
        return
    for index, (name, argument) in enumerate(_after_flags(args)):
        for suspect in secrets_in(argument, name):
            yield index, suspect


def is_harmless(words: Iterable[str]) -> bool:
    """Tell whether a quick look at all of a command line shows that it certainly has no secret."""
    line = "\n".join(words)
    return _SIMPLE_LINE.fullmatch(line) is not None and _HINT.search(line.lower()) is None


def is_harmless_json(text: str) -> bool:
    """Tell whether a quick look at JSON shows that it certainly has no secret and no variable."""
    return _SIMPLE_JSON.fullmatch(text) is not None and _HINT.search(text.lower()) is None


def parts_of_secret(secret: str) -> Iterator[str]:
    """Yield a secret, and the parts that logs may show: a ``Bearer`` token, a cookie's value."""
    yield secret
    words = [word for word in secret.split() if word.lower() not in _SCHEMES]
    for word in words:
        # Of a command behind a secret, and of a sentence that is one, the words say nothing.
        if len(words) > 1 and word.isalpha() and word.islower():
            continue
        for part in _SEPARATORS.split(word):
            yield part
            yield part.partition("=")[2]


def words_of_command(line: str) -> list[str]:
    """Split a `command` into words, because it may contain a whole command line."""
    return [_QUOTES.sub(r"\2", word) for word in _WORD_OF_COMMAND.findall(line)]


def url_secrets(url: str) -> Iterator[Suspect]:
    """Yield the secrets in a URL: a password, a query such as ``?token=…``, a random path."""
    if _is_plain_address(url):
        return
    try:
        parts = urlsplit(url)
        user, password = parts.username, parts.password
    except ValueError:
        return
    for text in (password, None if password else user):
        if text:
            yield Suspect("password", text)
            yield Suspect("password", unquote(text))
    if password and _VARIABLES.fullmatch(password) is None:
        sent = f"{unquote(user or '')}:{unquote(password)}"
        yield Suspect("password", b64encode(sent.encode("utf-8", "surrogatepass")).decode())
    for pair in parts.query.split("&"):
        name, _, raw = pair.partition("=")
        if is_secret_name(name) or name.lower() in ("key", "sig", "signature", "code"):
            yield Suspect(name, raw)
            yield from (Suspect(name, value) for _, value in parse_qsl(pair))
    for segment in parts.path.split("/"):
        if looks_random(segment):
            yield Suspect("path", segment)


def proxy_secrets(address: str) -> Iterator[Suspect]:
    """Yield the secrets in the address of a proxy; programs take it without a scheme, too.

    They also take a password in which ``/``, ``#`` or ``?`` is not quoted.
    """
    before, _, _ = address.strip().rpartition("@")
    user, _, password = _SCHEME.sub("", before, count=1).partition(":")
    if before:
        yield from url_secrets(f"http://{quote(unquote(user))}:{quote(unquote(password))}@proxy")
        yield Suspect("password", password or user)


def looks_random(segment: str) -> bool:
    """Tell whether a name, or a part of a path, looks machine-generated."""
    # No chosen name is that long; besides, the pattern would take long.
    if len(segment) > _LONGEST_NAME:
        return True
    return _RANDOM_SEGMENT.fullmatch(segment) is not None or looks_like_token(segment)


def _is_plain_address(text: str) -> bool:
    return _PLAIN_ADDRESS.fullmatch(text) is not None and _HINT.search(text.lower()) is None


def _words(name: str) -> str:
    return "_".join(_WORD.findall(name[:_LONGEST_NAME])).lower()


def _is_pin(name: str, value: str) -> bool:
    return _DIGITS.fullmatch(value) is not None and _PIN.search(_words(name)) is not None


def _is_option(argument: str) -> bool:
    # A password may begin with a hyphen, too.
    return argument.startswith("--") or (argument.startswith("-") and len(argument) <= len("-xy"))


def _is_secret_argument(name: str, value: str) -> bool:
    return name.lower() in _SECRET_FLAGS or is_secret(name, value)


def _by_their_form(text: str) -> Iterator[Suspect]:
    """Find what is a secret whatever it is called."""
    for url in _URL.findall(text):
        yield from url_secrets(url)
    for token in _TOKEN.findall(text):
        yield Suspect("token", token)
        if "://" not in text and not _SEPARATORS.search(text):
            # There may be more of it than we know.
            yield Suspect("token", text)
    for bearer in _BEARER.finditer(text):
        # In a sentence, "bearer authentication" is no secret.
        if bearer[0] == text or not (bearer[1].isalpha() and bearer[1].islower()):
            yield Suspect("token", bearer[1])
    for encoded in _BASIC.findall(text):
        try:
            user, colon, password = b64decode(encoded).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            continue
        if colon and user.isprintable():
            yield Suspect("password", encoded)
            yield Suspect("password", password)


def _parts(text: str) -> Iterator[tuple[str, str]]:
    """Give the smaller texts that a text is made of, each with its name if it has one."""
    parsed = _parsed(text)
    if parsed is not None:
        yield from _leaves(parsed)
        return
    assigned = _ASSIGNMENT.fullmatch(text)
    if assigned is not None:
        yield assigned[1], assigned[2]
    words = words_of_command(text)
    if words == [text]:
        words = _SEPARATORS.split(text)
    if words != [text]:
        yield from _after_flags(words)


def _after_flags(words: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Give each word of a command line with the name of the flag before it."""
    name = ""
    for word in words:
        is_value = bool(name) and not _is_option(word)
        yield (name if is_value else ""), word
        flag = None if is_value and _is_secret_argument(name, word) else _FLAG.fullmatch(word)
        name = "" if flag is None else flag[1]


def _leaves(parsed: object) -> Iterator[tuple[str, str]]:
    waiting = [("", parsed)]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, list):
            waiting += [
                it if isinstance(it, tuple) else (name, it)
                for it in cast("list[tuple[str, object] | str]", value)
            ]
        elif isinstance(value, str | int) and not isinstance(value, bool):
            yield name, str(value)


def _parsed(text: str) -> object:
    """Return what is in JSON, each object as a list of pairs; of other texts, nothing."""
    if not text.lstrip().startswith(("{", "[", '"')):
        return None
    # People escape JSON once more to bring it through a shell.
    for written in (text, text.replace('\\"', '"')):
        try:
            return json.loads(written, object_pairs_hook=list, strict=False)
        except (ValueError, RecursionError):
            continue
    return None
