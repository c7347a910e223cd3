"""Expand variables in a configuration: `${VAR}`, `${input:ID}`, `${file:…}`, `${keyring:…}`."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import msgspec

from pegboard.config.problems import shown_key, value_at
from pegboard.config.secrets.kept_secrets import read_keyring, read_secret_file
from pegboard.errors import ConfigError
from pegboard.model.json_values import FrozenDict

__all__ = [
    "Expansion",
    "Undefined",
    "Variables",
    "defaults_in",
    "input_defaults",
    "input_variable",
]

Undefined = Literal["error", "keep", "empty"]
"""What to do with an undefined variable: raise an error, keep it as written, or remove it."""

SHORTEST_SECRET = 6
_REFERENCE = re.compile(r"\$\$\{|\$\{([^{}]*)\}|\$\{")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Redacting the values of these would make every path and message unreadable.
_HARMLESS = frozenset(
    {"HOME", "USERPROFILE", "PWD", "PATH", "TMPDIR", "TMP", "TEMP", "USER", "USERNAME", "LOGNAME"}
    | {"SHELL", "LANG", "HOSTNAME", "APPDATA", "LOCALAPPDATA", "XDG_CONFIG_HOME", "XDG_DATA_HOME"}
)


class Expansion(NamedTuple):
    """A text with its variables replaced, and the secrets that came with them."""

    text: str
    secrets: frozenset[str] = frozenset()


class Variables(msgspec.Struct, frozen=True, kw_only=True):
    """The values of variables."""

    environ: Mapping[str, str]
    own: Mapping[str, str] = msgspec.field(default_factory=FrozenDict)
    """Variables of the server itself; they override ``environ``."""
    inputs: Mapping[str, str] = msgspec.field(default_factory=FrozenDict)
    """Answers to VS Code's ``${input:ID}``."""
    input_defaults: Mapping[str, str] = msgspec.field(default_factory=FrozenDict)
    """The values of inputs without an answer."""
    workspace: str = "."
    home: str = "~"
    folder: str = "."
    """A relative path in ``${file:PATH}`` starts here."""
    reads_secrets: bool = True
    """Whether to read files and the keyring; showing a configuration does not need them."""
    undefined: Undefined = "error"

    def __repr__(self) -> str:
        return f"Variables(workspace={self.workspace!r}, undefined={self.undefined!r})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        # Without this, Rich shows every field.
        return [("workspace", self.workspace), ("undefined", self.undefined)]

    def expand(self, text: str) -> Expansion:
        """Replace every variable in a text; ``$${`` is a plain ``${``.

        Raises:
            ConfigError: when a variable is not defined; the message names it.
        """
        if "${" not in text:
            return Expansion(text)
        secrets: set[str] = set()

        def replaced(found: re.Match[str]) -> str:
            if found[0] == "$${":
                return "${"
            value, is_secret = self._look_up(found[0], found[1])
            if is_secret and len(value) >= SHORTEST_SECRET:
                secrets.add(value)
            return value

        return Expansion(_REFERENCE.sub(replaced, text), frozenset(secrets))

    def _look_up(self, reference: str, body: str | None) -> tuple[str, bool]:
        if body is None:
            return self._missing(
                reference,
                "A `${` has no `}`, or contains another variable. Write `$${` for a plain `${`.",
            )
        named, has_default, default = body.partition(":-")
        place = self._place(named)
        if place is not None:
            return place, False
        if named.startswith("input:"):
            return self._input(reference, named.removeprefix("input:"))
        if named.startswith(("file:", "keyring:")):
            return self._kept(reference, named, default if has_default else None)
        name = named.removeprefix("env:")
        # As in a shell, `:-` also replaces what is defined but empty.
        if has_default and not self._value(name):
            return default, self._may_be_secret(name, default)
        return self._environment(reference, name)

    def _environment(self, reference: str, name: str) -> tuple[str, bool]:
        if not _NAME.fullmatch(name):
            return self._missing(
                reference, "A `${…}` is not a known variable. Write `$${` for a plain `${`."
            )
        value = self._value(name)
        if value is None:
            shown = shown_key(name)
            return self._missing(
                reference,
                f"The environment variable {shown} is not set. Set it, or give a default: "
                f"`${{{shown}:-default}}`.",
            )
        return value, self._may_be_secret(name, value)

    def _may_be_secret(self, name: str, value: str) -> bool:
        return name not in _HARMLESS and value not in (self.home, self.workspace)

    def _value(self, name: str) -> str | None:
        return self.own.get(name, self.environ.get(name))

    def _input(self, reference: str, identity: str) -> tuple[str, bool]:
        variable, shown = input_variable(identity), shown_key(identity)
        # An input called `path` asks for something, and not for PATH.
        is_settable = variable not in _HARMLESS
        value = self.inputs.get(identity)
        if value is None and is_settable:
            value = self.environ.get(variable)
        if value is None:
            value = self.input_defaults.get(identity)
        if value is not None:
            return value, True
        is_shown = is_settable and shown == identity
        hint = f"Set the environment variable {variable}, or let" if is_shown else "Let"
        return self._missing(
            reference,
            f"The input {shown!r} has no value. {hint} `pegboard import` ask for it at a terminal. "
            "A program passes it in `inputs`.",
        )

    def _kept(self, reference: str, named: str, default: str | None) -> tuple[str, bool]:
        if not self.reads_secrets:
            return reference, False
        kind, _, name = named.partition(":")
        if kind == "keyring":
            value, where = read_keyring(name), " in the keyring of this machine"
        else:
            path = self.home + name[1:] if name.startswith(("~/", "~\\")) else name
            value, where = read_secret_file(Path(self.folder, path)), ""
        value = default if value is None else value
        if value is not None:
            return value, True
        return self._missing(
            reference,
            f"The secret `{kind}:{shown_key(name)}` was not found{where}. Restore it, or write "
            "another variable in its place.",
        )

    def _missing(self, reference: str, problem: str) -> tuple[str, bool]:
        if self.undefined == "error":
            raise ConfigError(problem)
        return (reference if self.undefined == "keep" else ""), False

    def _place(self, name: str) -> str | None:
        match name:
            case "workspaceFolder":
                return self.workspace
            case "workspaceFolderBasename":
                return Path(self.workspace).name
            case "userHome":
                return self.home
            case "pathSeparator" | "/":
                return os.sep
            case _:
                return None


def defaults_in(text: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the default of every ``${VAR:-default}`` in a text."""
    for reference in _REFERENCE.finditer(text):
        named, has_default, default = (reference[1] or "").partition(":-")
        if has_default:
            yield named.removeprefix("env:"), default


def input_defaults(content: object) -> dict[str, str]:
    """Return the defaults of VS Code's inputs in a file, by the id of the input."""
    found: dict[str, str] = {}
    for section in (("inputs",), ("mcp", "inputs")):
        inputs = value_at(content, section)
        for asked in cast("list[object]", inputs) if isinstance(inputs, list) else ():
            identity, default = value_at(asked, ("id",)), value_at(asked, ("default",))
            if isinstance(identity, str) and isinstance(default, str):
                found[identity] = default
    return found


def input_variable(identity: str) -> str:
    """Return the environment variable that answers VS Code's ``${input:ID}``."""
    return re.sub(r"[^A-Z0-9]", "_", identity.upper())
