"""The log of the servers on disk, and reading it."""

import logging
import stat
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pegboard.observe.background_writer import BackgroundWriter
from pegboard.observe.server_log import LogLine, ServerLog
from pegboard.observe.server_log_reading import LogReader
from tests.observe.full_disk import full_disk


def read(line: bytes) -> str:
    return line.decode()


def texts(folder: Path, server: str | None = None) -> list[str]:
    return [it.text for it in LogReader(folder, server=server).read()]


def write(folder: Path, server: str, *lines: str, most: int = 20_000_000, each: int = 0) -> None:
    log = ServerLog(folder, most=most, most_each=each or most)
    log.of().wrote(server, [it.encode() for it in lines], read)
    log.close()


def test_what_servers_wrote_and_what_became_of_them_is_read_in_the_order_of_time(
    tmp_path: Path,
) -> None:
    log = ServerLog(tmp_path / "logs")
    ours, theirs = log.of(), log.of("acme")
    ours.note("notes", "started", "process 7")
    theirs.wrote("notes", [b"of acme", b"  "], read)
    ours.wrote("a/../b\0c", [b"of a strange name"], read)
    ours.note("", "drained")
    log.close()
    found = [
        (it.tenant, it.server, it.event, it.text) for it in LogReader(tmp_path / "logs").read()
    ]
    assert found == [
        ("", "notes", "started", "process 7"),
        ("acme", "notes", "stderr", "of acme"),
        ("", "a/../b\0c", "stderr", "of a strange name"),
        ("", "", "drained", ""),
    ]
    files = list((tmp_path / "logs").iterdir())
    assert {stat.S_IMODE(it.stat().st_mode) for it in files} == {0o600}
    assert stat.S_IMODE((tmp_path / "logs").stat().st_mode) == 0o700


def test_a_server_that_writes_much_loses_its_oldest_lines_and_no_other_server_does(
    tmp_path: Path,
) -> None:
    write(tmp_path, "quiet", "still here")
    for number in range(60):
        write(tmp_path, "loud", *(f"{number} {it} {'x' * 50}" for it in range(10)), each=10_000)
    loud = sum(it.stat().st_size for it in tmp_path.glob("loud*"))
    assert 4_000 < loud <= 10_000
    assert texts(tmp_path, "loud")[-1].startswith("59 9 ")
    assert texts(tmp_path, "quiet") == ["still here"]


def test_one_large_batch_stays_within_the_share_of_its_server(tmp_path: Path) -> None:
    write(tmp_path, "loud", *(f"{it} {'x' * 100}" for it in range(1_000)), each=10_000)
    assert sum(it.stat().st_size for it in tmp_path.glob("*.jsonl")) <= 10_000
    assert texts(tmp_path)[-1].startswith("999 ")


def test_all_files_together_stay_within_their_limit(tmp_path: Path) -> None:
    for number in range(20):
        write(tmp_path, f"server{number}", "x" * 800, most=8_000)
    assert sum(it.stat().st_size for it in tmp_path.glob("*.jsonl")) <= 8_000
    assert [it.server for it in LogReader(tmp_path).read()][-1] == "server19"


def test_gateways_that_share_the_folder_lose_no_line(tmp_path: Path) -> None:
    logs = [ServerLog(tmp_path) for _ in range(4)]
    for number in range(100):
        for who, log in enumerate(logs):
            log.of().wrote("shared", [f"{who} {number}".encode()], read)
    for log in logs:
        log.close()
    assert sorted(texts(tmp_path)) == sorted(f"{who} {it}" for who in range(4) for it in range(100))


def test_a_reader_follows_a_log_through_its_rotation(tmp_path: Path) -> None:
    reader, found = LogReader(tmp_path, server="loud"), list[str]()
    for number in range(30):
        write(tmp_path, "loud", *(f"{number}.{it}" for it in range(9)), each=4_000)
        found += [it.text for it in reader.read()]
    assert found == [f"{number}.{it}" for number in range(30) for it in range(9)]
    assert len(texts(tmp_path)) < len(found)


def test_only_what_is_not_older_is_read(tmp_path: Path) -> None:
    write(tmp_path, "notes", "now")
    soon = datetime.now(UTC) + timedelta(minutes=1)
    assert LogReader(tmp_path, since=soon).read() == []
    assert len(LogReader(tmp_path, since=soon - timedelta(hours=1)).read()) == 1


def test_a_damaged_or_unfinished_line_is_left_out(tmp_path: Path) -> None:
    write(tmp_path, "notes", "first")
    (path,) = tmp_path.glob("notes*.jsonl")
    with path.open("ab") as file:
        file.write(b'{"at": 5}\n\xff\n{"at": "2026-')
    assert texts(tmp_path) == ["first"]


def test_without_a_log_there_is_nothing_to_read(tmp_path: Path) -> None:
    assert LogReader(tmp_path / "none").read() == []


def test_a_full_disk_is_told_once_and_later_how_many_lines_are_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="pegboard.observe")
    write(tmp_path, "notes", "before")
    log = ServerLog(tmp_path)
    with full_disk(tmp_path / ".lock", room=0):
        for text in (b"one", b"two", b"three"):
            log.of().wrote("notes", [text], read)
            log.flush()
    log.of().wrote("notes", [b"after"], read)
    log.close()
    assert [it.message.partition(":")[0] for it in caplog.records] == ["server_log_failed"]
    assert texts(tmp_path, "notes") == ["before", "after"]
    assert texts(tmp_path, "") == ["3 lines of this log lost"]


def test_who_watches_gets_what_happens_and_not_what_servers_write(tmp_path: Path) -> None:
    seen: list[LogLine] = []
    log = ServerLog(None, watch=seen.append)
    log.of().note("notes", "lost", "it\nbroke")
    log.of().wrote("notes", [b"output"], read)
    log.close()
    assert [(it.server, it.event, it.text) for it in seen] == [("notes", "lost", "it broke")]


def test_what_a_stuck_output_does_not_take_is_dropped_and_counted() -> None:
    written: list[tuple[list[int], int]] = []
    entered, go_on = threading.Event(), threading.Event()

    def slow(items: object, dropped: int) -> None:
        entered.set()
        assert go_on.wait(5)
        written.append((list(items), dropped))  # pyright: ignore[reportArgumentType, reportUnknownArgumentType]

    writer = BackgroundWriter[int](slow, most=3, owner="test")
    writer.put(0)
    assert entered.wait(5)
    for number in range(1, 9):
        writer.put(number)
    writer.close(patience=0.01)
    go_on.set()
    writer.close()
    assert written == [([0], 0), ([1, 2, 3], 5)]


def test_what_an_event_quotes_cannot_steer_a_terminal_and_loses_no_other_line(
    tmp_path: Path,
) -> None:
    log = ServerLog(tmp_path)
    log.of().note("notes", "ready", "after 0.10 s")
    log.of().note("notes", "resent", "a\x1b[31m\x9b5m\u202eb\ud800: refused")
    log.close()
    assert texts(tmp_path) == [
        "after 0.10 s",
        "a\\u001b[31m\\u009b5m\\u202eb\\ud800: refused",
    ]
