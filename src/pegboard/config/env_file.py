"""Files of `KEY=VALUE` lines that an entry may name as its `envFile`."""

import re
from pathlib import Path

from pegboard.errors import ConfigError

__all__ = ["read_env_file"]

_MAX_BYTES = 1_000_000
_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_.]*)\s*=\s*(.*)")
_COMMENT = re.compile(r"(?:^|\s)#.*")
_QUOTED = re.compile(r"(['\"])(.*)\1\s*(?:#.*)?")


def read_env_file(path: Path) -> dict[str, str]:
    """Read variables: one a line, quotes and ``export`` allowed, ``#`` begins a comment.

    Raises:
        ConfigError: when the file cannot be read; with the line, when a line is no assignment.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise ConfigError("The file is larger than 1 MB.", path=str(path))
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"The file cannot be read: {error.strerror}.", path=str(path)) from None
    except UnicodeDecodeError:
        text = None
    if text is None:
        raise ConfigError("The file is not UTF-8.", path=str(path))
    found: dict[str, str] = {}
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        pair = _LINE.fullmatch(line)
        if pair is None:
            raise ConfigError("Expected `KEY=VALUE`.", path=str(path), line=number)
        quoted = _QUOTED.fullmatch(pair[2])
        found[pair[1]] = quoted[2] if quoted else _COMMENT.sub("", pair[2]).rstrip()
    return found
