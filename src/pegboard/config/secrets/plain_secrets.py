"""Find secrets in plain text in a configuration file, and move them out of it."""

import re
import zlib
from collections.abc import Iterator, Mapping
from typing import NamedTuple, cast

from pegboard.config.problems import FieldPath, shown_key, shown_path, value_at
from pegboard.config.secret_detection import (
    Suspect,
    argument_secrets,
    is_harmless,
    is_numeric_secret,
    is_secret,
    is_secret_name,
    secrets_in,
    words_of_command,
)
from pegboard.config.secrets.variables import defaults_in

__all__ = ["PlainSecret", "plain_secrets", "text_of"]

_SCHEME = re.compile(r"(?:bearer|basic|token|apikey)\s+", re.IGNORECASE)
_NO_SECRET = re.compile(
    r"<.*>|\{.*\}|\[.*\]|x{3,}.*|\*+|\.{2,}|…|\$\w+|\$\(.*|`.*|%\w+%|[+-]?[0-9.]+"
    r"|true|false|yes|no|on|off|auto|none|null"
    r"|.*(?:your[-_ ]|change-?_?me|replace|placeholder|example|dummy|insert[-_ ]|redacted).*",
    re.IGNORECASE | re.DOTALL,
)
# The values of `--auth oauth` and `--key ./server.pem` are not secrets.
_WORD_OR_FILE = re.compile(
    r"[a-z]{1,12}|(?:\.{0,2}|~|[A-Za-z]:)[/\\].*|.*\.(?:pem|key|crt|cer|json|txt)", re.DOTALL
)
_TOKENS = frozenset({"authorization", "bearer_token", "bearertoken", "path", "url"})


class PlainSecret(NamedTuple):
    """The field that contains a secret, and the environment variable that should hold it."""

    path: FieldPath
    variable: str

    def advice(self, server: str) -> str:
        """Return the advice for the user; it does not contain the secret."""
        return (
            f"Server {server!r} has a secret in plain text in `{shown_path(self.path)}`. Write "
            f'"${{{self.variable}}}" in its place, and put the value into the environment '
            f"variable {self.variable}."
        )


def plain_secrets(server: str, entry: Mapping[str, object]) -> Iterator[PlainSecret]:
    """Yield the secrets of an entry with our field names, before its variables are expanded."""
    held: dict[str, str] = {}
    for path, wanted, value in _found(server, entry):
        variable, number = wanted, 1
        secret = _SCHEME.sub("", value.strip(), count=1)
        while held.setdefault(variable, secret) != secret:
            number += 1
            variable = f"{wanted}_{number}"
        yield PlainSecret(path, variable)


def text_of(value: object) -> str:
    """Return a text, or a number as text; anything else is an empty text."""
    is_text = isinstance(value, str | int) and not isinstance(value, bool)
    return str(value) if is_text else ""


def _found(server: str, entry: Mapping[str, object]) -> Iterator[tuple[FieldPath, str, str]]:
    """Give the path of each, the variable it calls for, and what that would hold."""
    for field in ("bearer_token", "url", "http_url", "proxy"):
        value = entry.get(field)
        if isinstance(value, str) and _holds_secret(field, value):
            yield (field,), _variable(server, field), value
    for path, members in _objects(entry):
        for name, value in members.items():
            text = text_of(value)
            if text and _holds_secret(name, text):
                whose = "" if "env" in path else server
                yield (*path, name), _variable(whose, name), text
    for path, command in _commands(entry):
        for variable, value in list(_on_command_line(server, words_of_command(command)).values())[
            :1
        ]:
            yield path, variable, value
    for path, args in _argument_lists(entry):
        for index, (variable, value) in _on_command_line(server, args).items():
            yield (*path, index), variable, value


def _objects(
    entry: Mapping[str, object],
) -> Iterator[tuple[tuple[str, ...], Mapping[str, object]]]:
    for path in (("env",), ("headers",), ("oauth",), ("tls",), ("command", "env")):
        if path[0] not in entry:
            continue
        found = value_at(entry, path)
        if isinstance(found, Mapping):
            members = cast("Mapping[str, object]", found)
            if path == ("tls",):
                # The other members are paths, even if their names end in `key`.
                members = {key: it for key, it in members.items() if is_secret_name(key)}
            yield path, members


def _commands(entry: Mapping[str, object]) -> Iterator[tuple[tuple[str, ...], str]]:
    command = entry.get("command")
    for path in (("command",),) if isinstance(command, str) else (("command", "path"),):
        found = value_at(entry, path)
        if isinstance(found, str) and not is_harmless((found,)):
            yield path, found


def _argument_lists(entry: Mapping[str, object]) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    in_command = isinstance(entry.get("command"), Mapping)
    for path in (("args",), ("command", "args"))[: 1 + in_command]:
        found = value_at(entry, path)
        if isinstance(found, list | tuple):
            # What is no text keeps its place, so that indexes stay right.
            yield path, [text_of(it) for it in cast("list[object]", found)]


def _on_command_line(server: str, args: list[str]) -> dict[int, tuple[str, str]]:
    """Return the variable for each argument that holds a secret, and its value, by its index."""
    found: dict[int, tuple[str, str]] = {}
    if is_harmless(args):
        return found
    for index, suspect in argument_secrets(args):
        if index not in found and _is_plain_suspect(suspect):
            found[index] = _variable(server, suspect.name), suspect.value
    for index, argument in enumerate(args):
        for name, default in _secret_defaults(argument):
            found.setdefault(index, (_variable("", name), default))
    return found


def _holds_secret(name: str, value: str) -> bool:
    if is_secret(name, value):
        return _is_plain(name, value)
    return any(_secret_defaults(value)) or any(map(_is_plain_suspect, secrets_in(value)))


def _is_plain_suspect(suspect: Suspect) -> bool:
    is_clear = is_secret_name(suspect.name)
    return _is_plain(*suspect) and (is_clear or not _WORD_OR_FILE.fullmatch(suspect.value))


def _secret_defaults(text: str) -> Iterator[tuple[str, str]]:
    for name, default in defaults_in(text) if "${" in text else ():
        if is_secret(name, default) and _is_plain(name, default):
            yield name, default


def _is_plain(name: str, value: str) -> bool:
    parts = [default for _, default in defaults_in(value)] if "${" in value else [value]
    texts = [_SCHEME.sub("", part.strip(), count=1) for part in parts]
    return any(
        text and (is_numeric_secret(name, text) or _NO_SECRET.fullmatch(text) is None)
        for text in texts
    )


def _variable(server: str, name: str) -> str:
    if not server.isascii() and not re.search("[A-Za-z]", server):
        # Nothing of it can stand in a variable, and other servers have the same fields.
        server = f"MCP_{zlib.crc32(server.encode('utf-8', 'surrogatepass')):08x}"
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", shown_key(name))
    word = "TOKEN" if name.lower() in _TOKENS else words
    whole = re.sub(r"[^A-Z0-9]+", "_", f"{server}_{word}".upper()).strip("_")
    return whole if whole and not whole[0].isdigit() else f"MCP_{whole}"
