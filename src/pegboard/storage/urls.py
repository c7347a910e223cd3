"""The URL of a store: the file it names, and how it can be shown."""

import re
from pathlib import Path
from urllib.parse import unquote

__all__ = ["SCHEME", "path_of", "without_password"]

# At least two letters: `C:` is a disk.
SCHEME: re.Pattern[str] = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
# Up to the last `@`: what is not quoted as it should be must not show either.
_PASSWORD = re.compile(
    r"^(?P<user>(?:[\w+.-]+:/{0,2}|[\w+.-]*//)?[^/@:?]*):(?!/).*(?=@)"
    r"|(?P<key>password\s*=\s*)(?:'[^']*'|[^&\s]*)",
    re.IGNORECASE,
)


def path_of(url: str) -> Path:
    """Return the file that a URL or a plain path names."""
    scheme = SCHEME.match(url)
    if scheme is None:
        return Path(url).expanduser()
    rest = unquote(url[scheme.end() :]).removeprefix("//")
    # sqlite:///C:/here
    return Path(re.sub(r"^/(?=[A-Za-z]:)", "", rest)).expanduser()


def without_password(url: str) -> str:
    """Return a URL that can be shown."""
    return _PASSWORD.sub(_hidden, url)


def _hidden(found: re.Match[str]) -> str:
    return f"{found['key']}***" if found["user"] is None else f"{found['user']}:***"
