"""What a server writes to standard error: lines for its log."""

import sys
from collections.abc import Callable, Sequence

import anyio
import msgspec

from pegboard.config import ServerConfig
from pegboard.upstream.events import ServerNote
from pegboard.upstream.stdio.process import spawn
from pegboard.upstream.stdio.stderr_lines import LONGEST_LINE, StderrLines, readable

SECRET = "s3cret-of-the-server"
CONFIG = ServerConfig(name="sample", transport="stdio", command=sys.executable, env={"KEY": SECRET})


class KeptLog:
    """A log in memory."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.notes: list[tuple[ServerNote, str]] = []

    def note(self, server: str, event: ServerNote, text: str = "") -> None:
        assert server == "sample"
        self.notes.append((event, text))

    def wrote(self, server: str, lines: Sequence[bytes], read: Callable[[bytes], str]) -> None:
        assert server == "sample"
        self.lines += map(read, lines)


def shown(line: bytes) -> str:
    return readable(line, redact=CONFIG.redact)


def test_a_line_has_no_secrets_and_nothing_that_steers_a_terminal() -> None:
    assert shown(b"key " + SECRET.encode()) == "key ***"
    assert shown(b"Authorization: Bearer abcdef1234567890abcdef") == "Authorization: ***"
    assert shown(b"\x1b[2Jgone\x07 10%\r20%") == r"\u001b[2Jgone\u0007 10%\r20%"
    assert shown(b"\xff and \xe2\x80\xae") == "\ufffd and \\u202e"
    assert shown(b"plain text: 3 files, id 3f2b8c1e  \r") == "plain text: 3 files, id 3f2b8c1e"


def test_a_long_line_is_cut_behind_its_secrets() -> None:
    long = b"y" * (LONGEST_LINE - 4) + SECRET.encode() + b"z" * 10_000
    assert shown(long) == "y" * (LONGEST_LINE - 4) + "***z…"
    # Cut by what is kept: its end could be half of a secret, and is not shown.
    assert SECRET[:5] not in shown(b"y" * 8_185 + SECRET.encode())


def test_parts_of_a_line_are_joined_and_the_last_one_needs_no_end() -> None:
    log = KeptLog()
    lines = StderrLines(CONFIG, log)
    for part in (b"one\ntw", b"o ", SECRET[:6].encode(), SECRET[6:].encode(), b"\n", b"last"):
        lines.take(part)
    lines.end()
    assert log.lines == ["one", "two ***", "last"]
    assert log.notes == []


def test_a_line_without_an_end_takes_no_more_memory_than_is_kept() -> None:
    log = KeptLog()
    lines = StderrLines(CONFIG, log)
    for _ in range(1_000):
        lines.take(b"x" * 65_536)
    lines.end()
    assert log.lines == ["x" * LONGEST_LINE + "…"]


def test_of_a_flood_some_lines_are_kept_and_the_others_are_counted() -> None:
    log = KeptLog()
    lines = StderrLines(CONFIG, log)
    for number in range(1_000):
        lines.take(b"".join(b"%d.%d\n" % (number, it) for it in range(1_000)))
    lines.end()
    dropped = [text for event, text in log.notes if event == "dropped"]
    assert sum(int(it.split()[0].replace(",", "")) for it in dropped) + len(log.lines) == 1_000_000
    assert log.lines[:500] == [f"0.{it}" for it in range(500)]
    assert len(log.lines) < 100_000


async def test_a_process_is_logged_from_its_start_to_its_exit() -> None:
    log = KeptLog()
    script = "import sys; print('hello', file=sys.stderr); sys.exit(3)"
    config = msgspec.structs.replace(CONFIG, args=("-c", script))
    async with spawn(config, log=log) as process:
        with anyio.fail_after(5):
            await process.exited.wait()
    assert log.lines == ["hello"]
    assert log.notes == [
        ("started", f"process {process.pid}"),
        ("exited", f"process {process.pid} exited with code 3"),
    ]


async def test_what_was_dropped_is_told_although_nothing_more_is_written() -> None:
    log = KeptLog()
    script = "import sys; print('x\\n' * 5_000, file=sys.stderr, flush=True); sys.stdin.read()"
    config = msgspec.structs.replace(CONFIG, args=("-c", script))
    async with spawn(config, log=log):
        with anyio.fail_after(10):
            while not log.notes[1:]:  # noqa: ASYNC110 - nothing tells us
                await anyio.sleep(0.01)
    assert log.notes[1][0] == "dropped"
