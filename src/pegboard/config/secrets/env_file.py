"""Read `.env` files: `KEY=VALUE` lines that an entry names as its `envFile`."""

import errno
import os
import re
from pathlib import Path

from pegboard.config.atomic_write import read_named_file
from pegboard.errors import ConfigError

__all__ = ["find_env_file", "read_env_file"]

_MAX_BYTES = 1_000_000
_BLANK = " \t\r"
_NAME = re.compile(r"[ \t]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_.]*)[ \t]*=[ \t]*")
_COMMENT = re.compile(r"(?:^|[ \t])#.*", re.DOTALL)
# A value in quotes may go on over several lines.
_QUOTED = re.compile(
    r"""(?:"([^"\\]*+(?:\\.[^"\\]*+)*+)"|'([^']*+)')[ \t]*(?:#[^\n]*)?\r?(?:\n|\Z)""", re.DOTALL
)
_AROUND = re.compile(r"""(["'])(.*)\1""", re.DOTALL)
_ESCAPE = re.compile(r"\\([nr\"\\])")
_ESCAPED = {"n": "\n", "r": "\r"}


def find_env_file(path: Path) -> None:
    """Check that the file exists and may be read, without reading it.

    Raises:
        ConfigError: when it does not exist, or may not be read.
    """
    try:
        path.stat()
        if not os.access(path, os.R_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except (OSError, ValueError) as error:
        raise _unreadable(error, path) from None


def read_env_file(path: Path) -> dict[str, str]:
    """Read the variables of a file: quotes and ``export`` are allowed, ``#`` begins a comment.

    In double quotes, a backslash escapes ``n``, ``r``, a quote and another backslash.

    Raises:
        ConfigError: when the file cannot be read; with the line, when a line is not an assignment.
    """
    try:
        content = read_named_file(path, _MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise ConfigError("The file is larger than 1 MB.", path=str(path))
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = None
    except (OSError, ValueError) as error:
        raise _unreadable(error, path) from None
    if text is None:
        raise ConfigError("The file is not UTF-8.", path=str(path))
    return _parsed(text, str(path))


def _unreadable(error: OSError | ValueError, path: Path) -> ConfigError:
    if isinstance(error, OSError):
        return ConfigError(f"The file cannot be read: {error.strerror}.", path=str(path))
    # The path contains a character that no path can have, so it is not quoted.
    return ConfigError("`envFile` is not a valid path: look for an unusual character in it.")


def _parsed(text: str, path: str) -> dict[str, str]:
    found: dict[str, str] = {}
    index = 0
    while index < len(text):
        start = index
        name = _NAME.match(text, start)
        if name is not None:
            found[name[1]], index = _value(text, name.end())
            continue
        line, index = _rest_of_line(text, start)
        if line and not line.startswith("#"):
            number = text.count("\n", 0, start) + 1
            raise ConfigError("Expected `KEY=VALUE`.", path=path, line=number)
    return found


def _value(text: str, start: int) -> tuple[str, int]:
    """Return the value that begins here, and where the next line does."""
    quoted = _QUOTED.match(text, start)
    if quoted is None:
        line, end = _rest_of_line(text, start)
        value = _COMMENT.sub("", line).rstrip(_BLANK)
        around = _AROUND.fullmatch(value)
        return (value if around is None else around[2]), end
    if quoted[1] is None:
        return quoted[2], quoted.end()
    return _ESCAPE.sub(lambda it: _ESCAPED.get(it[1], it[1]), quoted[1]), quoted.end()


def _rest_of_line(text: str, start: int) -> tuple[str, int]:
    end = text.find("\n", start) + 1 or len(text)
    return text[start:end].strip(_BLANK + "\n"), end
