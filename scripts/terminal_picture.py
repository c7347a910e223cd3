"""Draw docs/images/terminal.svg: a session of the command, recorded in a real pseudo-terminal.

`python -m scripts.terminal_picture` runs the commands in a scratch home and writes the picture.
"""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator
from contextlib import suppress
from io import StringIO
from itertools import groupby
from pathlib import Path

import pyte
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from scripts.places import ROOT

__all__ = ["COMMANDS", "PICTURE", "drawing", "recorded"]

PICTURE = ROOT / "docs" / "images" / "terminal.svg"
COMMANDS = (
    "pegboard import --yes",
    "pegboard doctor",
    'pegboard search "what time is it in Oslo" --limit 1',
    "pegboard call mcp_clock_current_time timezone=Europe/Oslo",
    "pegboard connect cursor --only",
)
_COLUMNS, _ROWS = 102, 80
_THEME = TerminalTheme(
    (16, 38, 34),
    (222, 234, 230),
    [
        (16, 38, 34),
        (240, 113, 103),
        (110, 207, 151),
        (231, 171, 74),
        (107, 178, 229),
        (198, 146, 233),
        (94, 200, 180),
        (222, 234, 230),
    ],
)
_FRAME = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" \
aria-label="A session of the command pegboard">
  <style>
    .{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", \
monospace; font-size: {char_height}px; line-height: {line_height}px; }}
    .{unique_id}-title {{ font: bold 18px system-ui, sans-serif; }}
    {styles}
  </style>
  <defs>
    <clipPath id="{unique_id}-clip-terminal">
      <rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
    </clipPath>
    {lines}
  </defs>
  {chrome}
  <g transform="translate({terminal_x}, {terminal_y})" \
clip-path="url(#{unique_id}-clip-terminal)">
    {backgrounds}
    <g class="{unique_id}-matrix">
    {matrix}
    </g>
  </g>
</svg>
"""


def recorded() -> pyte.Screen:
    """Run the commands in a scratch home; return the screen at the end."""
    screen = pyte.Screen(_COLUMNS, _ROWS)
    stream = pyte.ByteStream(screen)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        client = home / ".cursor" / "mcp.json"
        client.parent.mkdir()
        client.write_text(
            '{"mcpServers": {"clock": {"command": "pegboard", "args": ["demo-server", "clock"]}, '
            '"notes": {"command": "pegboard", "args": ["demo-server", "notes"]}}}',
            "utf-8",
        )
        for number, command in enumerate(COMMANDS):
            stream.feed(b"\r\n" if number else b"")
            stream.feed(f"\x1b[1;32m$\x1b[0m \x1b[1m{command}\x1b[0m\r\n".encode())
            stream.feed(_output(command, home).replace(str(home).encode(), b"~"))
    return screen


def drawing(screen: pyte.Screen) -> str:
    """Return the screen as SVG."""
    console = Console(record=True, width=_COLUMNS, file=StringIO())
    for line in _lines(screen):
        console.print(line, soft_wrap=True)
    drawn = console.export_svg(
        title="pegboard", theme=_THEME, code_format=_FRAME, unique_id="terminal"
    )
    return re.sub(r"[ \t]+\n", "\n", drawn)


def _output(command: str, home: Path) -> bytes:
    """Run a command in a pseudo-terminal; return what it writes there."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0))
    env = {
        "HOME": str(home),
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
    }
    process = subprocess.Popen(  # noqa: S603 - our own command
        ["/bin/sh", "-c", command], stdin=theirs, stdout=theirs, stderr=theirs, env=env, cwd=home
    )
    os.close(theirs)
    written = bytearray()
    with suppress(OSError):  # Linux says so when the other side is closed.
        while piece := os.read(ours, 65_536):
            written += piece
    os.close(ours)
    if process.wait() != 0:
        raise SystemExit(f"`{command}` failed:\n{written.decode()}")
    return bytes(written)


def _lines(screen: pyte.Screen) -> Iterator[Text]:
    """Yield the rows of a screen, up to the last one with words on it."""
    last = max((row for row in range(_ROWS) if screen.display[row].strip()), default=0)
    for row in range(last + 1):
        line = Text(end="")
        cells = [screen.buffer[row][at] for at in range(len(screen.display[row].rstrip()))]
        for style, alike in groupby(cells, _style_of):
            line.append("".join(it.data for it in alike), style)
        yield line


def _style_of(cell: pyte.screens.Char) -> Style:
    colour = None if cell.fg == "default" else cell.fg.replace("brown", "yellow")
    return Style(color=colour, bold=cell.bold)


if __name__ == "__main__":
    PICTURE.write_text(drawing(recorded()), "utf-8")
