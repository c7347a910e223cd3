import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pegboard import Registry, Telemetry
from pegboard.observe import JsonLines, read_records
from tests.observe.full_disk import full_disk


def add(a: int, b: int) -> int:
    return a + b


@pytest.mark.covers("R-SAGE-38")
def test_recorded_calls_can_be_replayed(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    with JsonLines(path) as lines:
        registry = Registry(telemetry=Telemetry([lines], arguments=True, results=True))
        registry.register(add)
        registry.call("add", {"a": 1, "b": 2}, meta={"user": "u"})
        registry.call("add", {"a": 3, "b": 4})
    replayed = [(registry.call(it.tool, it.arguments), it.result) for it in read_records(path)]
    assert replayed == [(3, 3), (7, 7)]
    assert [it.meta for it in read_records(path)] == [{"user": "u"}, {}]
    assert list(read_records(path)) == list(read_records(path))


def test_without_being_asked_no_argument_or_result_is_written(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"

    def secret(key: str) -> str:
        return key

    with JsonLines(path) as lines:
        registry = Registry(observers=[lines])
        registry.register(secret)
        registry.call("secret", {"key": "canary-1234"})
    assert "canary" not in path.read_text("utf-8")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_threads_and_several_writers_never_mix_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    barrier = threading.Barrier(4)

    def write(number: int) -> None:
        with JsonLines(path) as lines:
            registry = Registry(telemetry=Telemetry([lines], arguments=True))
            registry.register(add)
            barrier.wait(5)
            for _ in range(100):
                registry.call("add", {"a": number, "b": 10**50})

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    assert sum(1 for _ in read_records(path)) == 400


def test_a_closed_or_unwritable_file_is_an_error_in_words(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(FileNotFoundError):
        JsonLines(tmp_path / "absent" / "calls.jsonl")
    lines = JsonLines(tmp_path / "calls.jsonl")
    lines.close()
    lines.close()
    registry = Registry(observers=[lines])
    registry.register(add)
    assert registry.call("add", {"a": 1, "b": 2}) == 3
    assert "is closed" in caplog.text


def test_a_full_disk_harms_no_call(caplog: pytest.LogCaptureFixture) -> None:
    lines = JsonLines("/dev/full")
    registry = Registry(observers=[lines])
    registry.register(add)
    assert registry.call("add", {"a": 1, "b": 2}) == 3
    assert "No space left" in caplog.text
    lines.close()


def test_what_a_full_disk_cuts_short_is_taken_back(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    with JsonLines(path) as lines:
        registry = Registry(telemetry=Telemetry([lines], arguments=True))
        registry.register(add)
        registry.call("add", {"a": 1, "b": 2})
        with full_disk(path, room=20):
            registry.call("add", {"a": 3, "b": 4})
        registry.call("add", {"a": 5, "b": 6})
    assert [it.arguments for it in read_records(path)] == [{"a": 1, "b": 2}, {"a": 5, "b": 6}]


def test_a_line_whose_writer_died_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    path.write_text('{"tool":"t","started":1,"duration":1,"outcome":"ok"}\n{"tool":', "utf-8")
    assert [it.tool for it in read_records(path)] == ["t"]


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    path.write_text('{"tool":"t","started":1,"duration":1,"outcome":"ok"}\n{"tool":\n', "utf-8")
    records = read_records(path)
    assert next(records).tool == "t"
    with pytest.raises(ValueError, match="line 2"):
        next(records)
