"""Interpret one entry of a configuration file: expand variables, check fields, report problems."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast, get_args, get_origin

import msgspec

from pegboard.config.files.assemble import FieldError, assemble, doubts_about
from pegboard.config.files.entry import (
    IGNORED,
    SPELLINGS,
    CommandEntry,
    OAuthEntry,
    OriginEntry,
    Scalar,
    ServerEntry,
    TimeoutsEntry,
    TlsEntry,
)
from pegboard.config.files.jsonc import Document
from pegboard.config.files.server_defaults import DEFAULTS, ServerDefaults
from pegboard.config.problems import FieldPath, Problem, ProblemKind, Severity, shown_path
from pegboard.config.secret_detection import is_harmless_json, looks_like_token
from pegboard.config.secrets.plain_secrets import plain_secrets
from pegboard.config.secrets.variables import Variables
from pegboard.config.servers import ServerConfig
from pegboard.errors import ConfigError
from pegboard.model.tool_names import nearest_names

__all__ = ["EntryContext", "Interpretation", "RawEntry", "interpret"]

_TYPES = {
    kind: {field.name: field.type for field in msgspec.structs.fields(kind)} for kind in SPELLINGS
}
_NESTED: dict[str, type[msgspec.Struct]] = {
    "command": CommandEntry,
    "oauth": OAuthEntry,
    "registry": OriginEntry,
    "timeouts": TimeoutsEntry,
    "tls": TlsEntry,
}
_HINTS: dict[tuple[str, type], str] = {
    ("args", str): ' Write a list with one text for each argument: ["--port", "8080"].',
    ("command", list): " Write only the program into `command`, and the rest into `args`.",
}
_STEP = re.compile(r"`\$(?:\.(\w+)|\[(\d+)\])")
_VERIFICATION = re.compile(
    r"(?:ssl_?|tls_?)?verify(?:_?(?:ssl|tls|certs?|certificates?))?|insecure|rejectUnauthorized"
    r"|(?:insecure_?)?skip_?(?:tls_?)?verify|allow_?insecure",
    re.IGNORECASE,
)
_BARE_VARIABLE = re.compile(r"\$[A-Z_][A-Z0-9_]*")
# An entry is shallow: no string that matters is deeper than `command.env.KEY`.
_DEEPEST_STRING = 3


class RawEntry(NamedTuple):
    """An entry as the file has it; without ``path``, it does not come from a file."""

    name: str
    value: object
    path: tuple[str, ...] | None = None
    """The keys that lead to it in the document."""


class EntryContext(NamedTuple):
    """What the entries of one file are read with."""

    variables: Variables
    folder: Path
    """Relative paths start here."""
    document: Document | None = None
    defaults: ServerDefaults = ServerDefaults()


class Interpretation(NamedTuple):
    """The result of reading an entry; without ``config``, the entry cannot be used."""

    config: ServerConfig | None
    problems: tuple[Problem, ...]


def interpret(entry: RawEntry, context: EntryContext) -> Interpretation:
    """Read one entry; the result lists its problems."""
    reader = _Reader(entry, context)
    config = reader.read()
    return Interpretation(config, tuple(reader.problems))


class _Reader:
    def __init__(self, entry: RawEntry, context: EntryContext) -> None:
        self.entry = entry
        self.context = context
        self.variables = context.variables
        self.problems: list[Problem] = []
        self.failed = False
        self.secrets: set[str] = set()
        self.keys: dict[str, str] = {}
        self.is_off = False
        self.defaults = context.defaults
        self.is_expanded = self.variables.reads_secrets

    def read(self) -> ServerConfig | None:
        raw = self.entry.value
        if not isinstance(raw, Mapping):
            self.report(f"Server {self.entry.name!r} must be an object.")
            return None
        entry = cast("Mapping[object, object]", raw)
        fields = self.renamed(entry, ServerEntry, ())
        self.is_off = fields.get("disabled") is True or fields.get("enabled") is False
        # Of most entries one look tells as much; field by field it takes many times as long.
        is_plain = _is_plain(fields)
        for secret in () if is_plain else plain_secrets(self.entry.name, fields):
            advice = secret.advice(self.entry.name)
            self.report(advice, secret.path, "warning", kind="plain_secret")
        if self.defaults.env or not is_plain:
            fields = self.all_expanded(fields)
        if self.failed:
            return None
        checked = self.checked(fields)
        if checked is None or self.is_an_extension(entry, checked):
            return None
        config = self.assembled(checked)
        if config is not None:
            for doubt in doubts_about(checked, config):
                self.report(doubt.message, doubt.path, "warning", kind="doubt")
        return config

    def assembled(self, entry: ServerEntry) -> ServerConfig | None:
        try:
            return assemble(
                self.entry.name,
                entry,
                folder=self.context.folder,
                home=self.variables.home,
                secrets=frozenset(self.secrets),
                defaults=self.defaults,
                is_expanded=self.is_expanded,
            )
        except FieldError as error:
            self.report(self.without_secrets(str(error)), tuple(error.field.split(".")))
        except ConfigError as error:
            self.report(self.without_secrets(str(error)))
        return None

    def renamed(
        self, value: Mapping[Any, object], kind: type[msgspec.Struct], path: FieldPath
    ) -> dict[str, object]:
        """Give every field our own name, and say which ones we do not know."""
        known = _TYPES[kind]
        found: dict[str, object] = {}
        for key, item in value.items():
            field = SPELLINGS[kind].get(key, key) if isinstance(key, str) else None
            if field not in known:
                self.unknown(key, kind, path)
            elif item is not None:
                if field in found:
                    self.report(
                        f"`{key}` means the same as another field of server "
                        f"{self.entry.name!r}; the last one is used.",
                        (*path, key),
                        "warning",
                    )
                found[field] = item
                if not path:
                    self.keys[field] = key
        return found

    def unknown(self, key: object, kind: type[msgspec.Struct], path: FieldPath) -> None:
        if not isinstance(key, str) or key in IGNORED or key.startswith(("_", "$", "//", "#")):
            return
        if _VERIFICATION.fullmatch(key) and kind in (ServerEntry, TlsEntry):
            self.report(
                f"Server {self.entry.name!r} has `{shown_path((*path, key))}`, which is not used: "
                "the verification of certificates cannot be switched off. Name the CA to trust in "
                "`tls.ca`.",
                (*path, key),
                "warning",
                kind="unknown_field",
            )
            return
        near = nearest_names(key, [*_TYPES[kind], *SPELLINGS[kind]], limit=1)
        hint = f" Did you mean `{near[0]}`?" if near else ""
        self.report(
            f"Server {self.entry.name!r} has an unknown field `{shown_path((*path, key))}`.{hint}",
            (*path, key),
            "warning",
            kind="unknown_field",
        )

    def all_expanded(self, fields: dict[str, object]) -> dict[str, object]:
        # `env` comes first: an argument may name a variable that only the program is given.
        around: object = {}
        if self.defaults.env and "command" in fields:
            around = self.expanded(self.defaults.env, (DEFAULTS, "env"))
            env = cast("dict[str, Scalar | None]", around)
            self.defaults = msgspec.structs.replace(self.defaults, env=env)
        if "env" in fields:
            fields["env"] = self.expanded(fields["env"], ("env",))
        own = {**_texts_in(around), **_texts_in(fields.get("env"))}
        if own:
            self.variables = msgspec.structs.replace(self.variables, own=own)
        return {
            field: value if field == "env" else self.expanded(value, (field,))
            for field, value in fields.items()
        }

    def expanded(self, value: object, path: FieldPath) -> object:
        if isinstance(value, str):
            return self.expanded_text(value, path) if "$" in value else value
        if len(path) > _DEEPEST_STRING:
            return value
        if isinstance(value, Mapping):
            members = cast("Mapping[str, object]", value)
            return {key: self.expanded(item, (*path, key)) for key, item in members.items()}
        if isinstance(value, list | tuple):
            items = cast("list[object]", value)
            return [
                it if isinstance(it, str) and "$" not in it else self.expanded(it, (*path, index))
                for index, it in enumerate(items)
            ]
        return value

    def expanded_text(self, text: str, path: FieldPath) -> str:
        if _BARE_VARIABLE.fullmatch(text):
            self.report(
                f"The field `{shown_path(path)}` of server {self.entry.name!r} looks like a "
                "variable, but only the form `${NAME}` is replaced.",
                path,
                "warning",
                kind="variable",
            )
        try:
            expansion = self.variables.expand(text)
        except ConfigError as error:
            if self.is_off:
                # A disabled server is not started, so its value is not needed yet.
                self.is_expanded = False
                return text
            message = f"Server {self.entry.name!r}, `{shown_path(path)}`: {error}"
            self.report(message, path, kind="variable")
            return text
        self.secrets |= expansion.secrets
        return expansion.text

    def checked(self, fields: dict[str, object]) -> ServerEntry | None:
        for field, kind in _NESTED.items():
            nested = fields.get(field)
            if isinstance(nested, dict):
                members = cast("dict[str, object]", nested)
                fields[field] = self.renamed(members, kind, (self.keys[field],))
        try:
            return msgspec.convert(fields, ServerEntry)
        except (msgspec.ValidationError, RecursionError):
            # That error names only the first fault.
            for field, value in fields.items():
                self.check(field, value)
        if not self.failed:
            self.report(f"Server {self.entry.name!r} cannot be read.")
        return None

    def check(self, field: str, value: object) -> None:
        try:
            msgspec.convert(value, _TYPES[ServerEntry][field])
        except msgspec.ValidationError as error:
            told = str(error)
        except RecursionError:
            told = "it is nested too deeply"
        else:
            return
        path = _culprit(value, told)
        kind = _TYPES[_NESTED.get(field, ServerEntry)].get(str(path[0]) if path else field)
        shown = shown_path((self.keys[field], *path))
        hint = _HINTS.get((field, type(value)), "") if not path else ""
        self.report(
            f"Server {self.entry.name!r} has an invalid `{shown}`: {_in_words(kind, told)}.{hint}",
            (field, *path),
        )

    def is_an_extension(self, raw: Mapping[object, object], entry: ServerEntry) -> bool:
        """Tell whether only Zed can start this server, which is not a fault of the file."""
        if entry.type or entry.command or entry.url or entry.http_url:
            return False
        if "settings" not in raw and raw.get("source") != "extension":
            return False
        self.report(
            f"Server {self.entry.name!r} is an extension that only Zed can start, so it is "
            "skipped. Give it a `command` or a `url`.",
            (),
            "warning",
        )
        return True

    def report(
        self,
        message: str,
        path: FieldPath = (),
        severity: Severity = "error",
        *,
        kind: ProblemKind = "entry",
    ) -> None:
        server = self.entry.name
        if looks_like_token(server):
            # A secret was pasted where the name belongs.
            message, server = message.replace(repr(server), repr("…")), "…"
        # A server that is switched off may be unfinished.
        counted: Severity = "warning" if self.is_off else severity
        self.failed = self.failed or severity == "error"
        line, column = self.place(path)
        self.problems.append(
            Problem(
                message=message,
                server=server,
                line=line,
                column=column,
                severity=counted,
                kind=kind,
            )
        )

    def place(self, path: FieldPath) -> tuple[int | None, int | None]:
        document = self.context.document
        if document is None or self.entry.path is None:
            return None, None
        if path[:1] == (DEFAULTS,):
            shared = document.root.find(path)
            return (None, None) if shared is None else document.place(shared.start)
        node = document.root.find(self.entry.path)
        if node is None:
            return None, None
        if path:
            path = (self.keys.get(str(path[0]), path[0]), *path[1:])
        while (found := node.find(path)) is None:
            path = path[:-1]
        return document.place(found.start)

    def without_secrets(self, text: str) -> str:
        for secret in sorted(self.secrets, key=len, reverse=True):
            text = text.replace(secret, "***")
        return text


def _is_plain(fields: dict[str, object]) -> bool:
    """Tell whether an entry certainly has no secret in plain text and no variable."""
    try:
        text = msgspec.json.encode(fields).decode()
    except (TypeError, ValueError, RecursionError):
        return False
    return is_harmless_json(text)


def _texts_in(members: object) -> dict[str, str]:
    found = cast("dict[str, object]", members).items() if isinstance(members, dict) else ()
    return {key: value for key, value in found if isinstance(value, str)}


def _in_words(kind: Any, told: str) -> str:
    if told.startswith("Invalid enum value"):
        # The original message quotes the value.
        return f"expected one of {', '.join(map(repr, _choices(kind)))}"
    told = told.replace(" | null", "").partition(" - at ")[0]
    return told[:1].lower() + told[1:]


def _choices(kind: Any) -> list[str]:
    if get_origin(kind) is Literal:
        return list(get_args(kind))
    return [choice for it in get_args(kind) for choice in _choices(it)]


def _culprit(value: object, told: str) -> FieldPath:
    found = _STEP.search(told)
    if found is not None:
        return (found[1] or int(found[2]),)
    if "$[...]" in told and isinstance(value, dict):
        members = cast("dict[str, object]", value)
        return tuple(key for key, it in members.items() if isinstance(it, list | dict))[:1]
    return ()
