"""The audit: what was refused and done, by whom, and no secret among it."""

import json
import threading
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegboard import Access, Registry, StorageError
from pegboard.errors import AccessDeniedError
from pegboard.model import Principal
from pegboard.observe import Audit, AuditRecord, audit
from pegboard.storage import open_store
from pegboard.testing import Memory
from tests.observe.full_disk import full_disk

ME = Principal(tenant="team", subject="pb_abc")
KEY = f"pb_{'k' * 12}_{'0123456789abcdef' * 4}"
TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJtZSJ9.c2lnbmF0dXJlLXRoYXQtaXMtbG9uZw"


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.mark.parametrize("name", ["audit.json", "audit.db"])
def test_what_was_noted_is_there_in_the_next_run_and_in_the_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / "audit.jsonl"
    with open_store(tmp_path / name, tenant="pegboard") as store:
        noting = Audit(store, path=path)
        noting.note("authenticate", "refused", reason="expired", source="10.0.0.7")
        noting.note("keys.create", "done", principal=ME, target="abc")
        noting.close()
    with open_store(tmp_path / name, tenant="pegboard") as store:
        kept = Audit(store).records()
    assert [(it.action, it.outcome, it.reason, it.tenant, it.target) for it in kept] == [
        ("keys.create", "done", "", "team", "abc"),
        ("authenticate", "refused", "expired", "", ""),
    ]
    lines = lines_of(path)
    assert [it["action"] for it in lines] == ["authenticate", "keys.create"]
    assert [datetime.fromisoformat(it["at"]).timestamp() for it in lines] == pytest.approx(
        [it.at for it in reversed(kept)], abs=1e-5
    )
    assert path.stat().st_mode & 0o777 == 0o600


def test_every_call_is_noted_with_its_caller_duration_and_sizes() -> None:
    with Memory().open() as store:
        noting = Audit(store)
        registry = Registry(observers=[noting], access=Access(deny=["secret"]))

        @registry.register
        def double(number: int) -> int:
            return 2 * number

        @registry.register
        def secret() -> None:
            pass

        caller = {"tenant": "team", "subject": "pb_abc"}
        registry.call("double", {"number": 2}, meta=caller)
        with pytest.raises(AccessDeniedError):
            registry.call("secret", {}, meta=caller)
        refused, done = noting.records()
        assert (done.action, done.outcome, done.target) == ("tools/call", "done", "double")
        assert (done.tenant, done.subject) == ("team", "pb_abc")
        assert done.duration is not None
        assert done.arguments_size == len('{"number":2}')
        assert (refused.outcome, refused.reason) == ("refused", "access_denied")
        noting.close()


def test_a_flood_of_refusals_is_one_record_with_a_count(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    noting = Audit(path=path)
    for _ in range(10_000):
        noting.note("authenticate", "refused", reason="unknown", source="10.0.0.7")
        noting.note("authenticate", "refused", reason="unknown", source="10.0.0.8")
    noting.close()
    assert [(it["source"], it["count"]) for it in lines_of(path)] == [
        ("10.0.0.7", 10_000),
        ("10.0.0.8", 10_000),
    ]


def test_nobody_fills_the_audit_by_being_refused_ever_new_things(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(audit, "MOST_TARGETS", 2)
    other = Principal(tenant="team", subject="pb_other")
    with Memory().open() as store:
        noting = Audit(store)
        for number in range(10):
            target = f"tool{number}"
            noting.note("tools/call", "refused", principal=ME, reason="denied", target=target)
        noting.note("tools/call", "refused", principal=ME, reason="denied", target="tool0")
        noting.note("tools/call", "refused", principal=other, reason="denied", target="tool9")
        kept = {(it.subject, it.target): it.count for it in noting.records()}
        noting.close()
    assert kept == {
        ("pb_abc", "tool0"): 2,
        ("pb_abc", "tool1"): 1,
        ("pb_abc", ""): 8,
        ("pb_other", "tool9"): 1,
    }


@pytest.mark.parametrize("name", ["audit.json", "audit.db"])
def test_no_number_of_refusals_pushes_out_what_was_done(tmp_path: Path, name: str) -> None:
    with open_store(tmp_path / name, tenant="pegboard") as store:
        noting = Audit(store, keep=10)
        for number in range(8):
            noting.note("keys.revoke", "done", target=str(number))
        for number in range(100):
            noting.note("tools/call", "refused", principal=ME, target=f"tool{number}")
            noting.flush()
        kept = noting.records(1_000)
        noting.close()
    done = [it.target for it in kept if it.outcome == "done"]
    assert sorted(done) == [str(number) for number in range(8)]
    refused = [it.target for it in kept if it.outcome == "refused"]
    assert refused[:5] == [f"tool{number}" for number in range(99, 94, -1)]
    assert len(refused) <= 7


def test_however_much_is_refused_at_once_there_is_room_for_what_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "MOST_PENDING", 4)
    path = tmp_path / "audit.jsonl"
    noting = Audit(path=path)
    for number in range(10):
        noting.note("authenticate", "refused", reason="unknown", source=f"10.0.0.{number}")
    noting.note("keys.revoke", "done", target="a")
    noting.close()
    found = lines_of(path)
    assert [it["outcome"] for it in found] == ["refused", "refused", "done", "failed"]
    assert (found[-1]["reason"], found[-1]["count"]) == ("lost", 8)


def test_while_nothing_can_be_written_refusals_are_dropped_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "MOST_PENDING", 2)
    path = tmp_path / "later" / "audit.jsonl"
    noting = Audit(path=path)
    noting.note("keys.revoke", "done", target="a")
    with pytest.raises(OSError, match="later"):
        noting.flush()
    for number in range(10):
        noting.note("tools/call", "refused", principal=ME, target=str(number))
        with pytest.raises(OSError, match="later"):
            noting.flush()
    path.parent.mkdir()
    noting.close()
    assert [it["target"] for it in lines_of(path)] == ["a", "7", "8", "9"]


def test_more_than_can_be_kept_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "MOST_PENDING", 3)
    path = tmp_path / "audit.jsonl"
    noting = Audit(path=path)
    for number in range(10):
        noting.note("keys.revoke", "done", target=str(number))
    noting.close()
    *kept, lost = lines_of(path)
    assert [it["target"] for it in kept] == ["0", "1", "2"]
    assert (lost["action"], lost["reason"], lost["count"]) == ("audit", "lost", 7)


@pytest.mark.parametrize("secret", [KEY, TOKEN, "ghp_" + "a1" * 18, "sk-" + "Zx9" * 10])
def test_no_secret_is_ever_written(tmp_path: Path, secret: str) -> None:
    path = tmp_path / "audit.jsonl"
    with Memory().open() as store:
        noting = Audit(store, path=path)
        me = Principal(tenant=secret, subject=f"Bearer {secret}")
        noting.note(f"tools/{secret}", "refused", principal=me, reason=secret, target=secret)
        noting.note("tools/call", "refused", target=f"say {secret} aloud", source=f"?key={secret}")
        noting.close()
        written = path.read_text("utf-8") + str(store.namespace("audit").items())
    assert secret not in written
    assert secret[-20:] not in written


@pytest.mark.parametrize("secret", [TOKEN, f"eyJ{'a1' * 1_000}", "ghp_" + "a1" * 18])
@pytest.mark.parametrize("room", [5, 10, 20, 40])
def test_no_secret_is_seen_in_part_where_a_text_is_cut(
    tmp_path: Path, secret: str, room: int
) -> None:
    path = tmp_path / "audit.jsonl"
    noting = Audit(path=path)
    begin = "word " * 60
    noting.note("tools/call", "refused", target=f"{begin[: 299 - room]} {secret} and more")
    noting.close()
    (line,) = lines_of(path)
    assert secret[:4] not in line["target"]
    assert 200 < len(line["target"]) <= 301


def test_of_a_key_the_id_is_kept(tmp_path: Path) -> None:
    noting = Audit(path=tmp_path / "audit.jsonl")
    noting.note("authenticate", "refused", target=KEY)
    noting.close()
    assert lines_of(tmp_path / "audit.jsonl")[0]["target"] == f"pb_{'k' * 12}_***"


@pytest.mark.parametrize(
    "subject",
    [
        "local",
        "pb_kkkkkkkkkkkk",
        "https://login.example.com/550e8400-e29b-41d4-a716-446655440000/v2.0|me@example.com",
        "https://login.example.com/|auth0|64ab5b7c2f0e4d3a9c8b7a6d",
    ],
)
def test_who_it_was_is_kept_as_it_is(tmp_path: Path, subject: str) -> None:
    noting = Audit(path=tmp_path / "audit.jsonl")
    noting.note("tools/call", "refused", principal=Principal(tenant="team", subject=subject))
    noting.close()
    assert lines_of(tmp_path / "audit.jsonl")[0]["subject"] == subject


@given(text=st.text(max_size=400))
def test_whatever_is_noted_can_be_kept_and_is_bounded(text: str) -> None:
    with Memory().open() as store:
        noting = Audit(store)
        noting.note(text, "refused", target=text, source="\ud800\x00" + text * 100)
        [record] = noting.records()
        noting.close()
    assert max(len(it) for it in (record.action, record.target, record.source)) <= 301


def test_a_store_that_is_away_does_not_hold_up_the_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "audit.jsonl"
    memory = Memory()
    store = memory.open()
    noting = Audit(store, path=path)
    store.close()
    for number in range(3):
        noting.note("keys.revoke", "done", target=str(number))
        with pytest.raises(StorageError):
            noting.flush()
    assert [it["target"] for it in lines_of(path)] == ["0", "1", "2"]
    noting.close()
    assert "flush_failed" in caplog.text


def test_a_file_that_cannot_be_written_is_tried_again(tmp_path: Path) -> None:
    path = tmp_path / "later" / "audit.jsonl"
    with Memory().open() as store:
        noting = Audit(store, path=path)
        noting.note("keys.revoke", "done", target="a")
        with pytest.raises(OSError, match="later"):
            noting.flush()
        path.parent.mkdir()
        noting.flush()
        noting.flush()
        assert [it["target"] for it in lines_of(path)] == ["a"]
        assert [it.target for it in noting.records()] == ["a"]
        noting.close()


def test_records_that_are_dropped_are_told_of_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(audit, "MOST_PENDING", 2)
    path = tmp_path / "later" / "audit.jsonl"
    noting = Audit(path=path)
    for number in range(10):
        noting.note("keys.revoke", "done", target=str(number))
        with pytest.raises(OSError, match="later"):
            noting.flush()

    def told() -> list[int]:
        said = [it for it in caplog.records if it.getMessage().startswith("audit_dropped")]
        return [it.__dict__["records"] for it in said]

    assert told() == [1]
    path.parent.mkdir()
    noting.flush()
    noting.flush()
    assert told() == [1, 6]
    assert [it["target"] for it in lines_of(path)] == ["6", "7", "8", "9"]
    noting.close()


def test_a_full_disk_leaves_no_broken_line_and_no_double(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    noting = Audit(path=path)
    noting.note("keys.revoke", "done", target="a")
    noting.flush()
    for target in "bc":
        noting.note("keys.revoke", "done", target=target)
    half = path.stat().st_size * 3 // 2
    with full_disk(path, room=half), pytest.raises(OSError, match="too large"):
        noting.flush()
    assert [it["target"] for it in lines_of(path)] == ["a"]
    noting.flush()
    assert [it["target"] for it in lines_of(path)] == ["a", "b", "c"]
    noting.close()


def test_what_a_store_kept_before_it_went_away_is_kept_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Memory().open() as store:
        kind: Any = type(store.namespace("audit"))
        put_many = kind.put_many

        def keep_and_go(values: Any, records: Mapping[str, Any]) -> None:
            put_many(values, records)
            raise StorageError("Gone.", url="memory:")

        noting = Audit(store)
        noting.note("keys.revoke", "done", target="a")
        with monkeypatch.context() as gone:
            gone.setattr(kind, "put_many", keep_and_go)
            with pytest.raises(StorageError):
                noting.flush()
        noting.note("keys.revoke", "done", target="b")
        assert sorted(it.target for it in noting.records()) == ["a", "b"]
        noting.close()


def test_the_file_can_be_moved_away_at_any_time(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    noting = Audit(path=path)
    noting.note("keys.revoke", "done", target="a")
    noting.flush()
    path.rename(tmp_path / "audit.1")
    noting.note("keys.revoke", "done", target="b")
    noting.close()
    assert [it["target"] for it in lines_of(path)] == ["b"]


def test_the_store_keeps_the_last_records_only() -> None:
    with Memory().open() as store:
        noting = Audit(store, keep=10)
        for number in range(50):
            noting.note("keys.revoke", "done", target=str(number))
            noting.flush()
        assert [it.target for it in noting.records(3)] == ["49", "48", "47"]
        assert 10 <= len(store.namespace("audit").items()) <= 12
        noting.close()


def test_old_records_are_forgotten_without_being_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with Memory().open() as store:
        values = store.namespace("audit")
        monkeypatch.delattr(type(values), "items")
        noting = Audit(store, keep=10)
        for number in range(50):
            noting.note("keys.revoke", "done", target=str(number))
            noting.flush()
        assert 10 <= len(values.keys()) <= 12
        noting.close()


async def test_noting_never_waits_for_the_store() -> None:
    """The detector of blocking calls would fail this test."""
    entered, leave = threading.Event(), threading.Event()
    memory = Memory()
    with memory.open() as store:
        noting = Audit(store)
        writing = noting._backlogs[0]._writer  # pyright: ignore[reportPrivateUsage]
        writes = writing.write

        def slow(records: Mapping[str, AuditRecord]) -> None:
            entered.set()
            leave.wait(10)
            writes(records)

        writing.write = slow  # pyright: ignore[reportAttributeAccessIssue]
        noting.note("a", "done")
        flushing = threading.Thread(target=noting.flush)
        flushing.start()
        entered.wait(10)
        for _ in range(1_000):
            noting.note("b", "refused")
        leave.set()
        flushing.join()
        noting.close()
        counts = sorted(
            it.value.get("count", 1) for it in store.namespace("audit").items().values()
        )
        assert counts == [1, 1_000]


def test_with_nowhere_to_write_nothing_is_kept() -> None:
    noting = Audit()
    noting.note("a", "done")
    assert noting.records() == []
    noting.close()


def test_keeping_nothing_is_refused() -> None:
    with Memory().open() as store, pytest.raises(ValueError, match="at least 1"):
        Audit(store, keep=0)
