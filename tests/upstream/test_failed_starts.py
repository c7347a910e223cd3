"""Failed starts: remembered for a while, and for this very entry."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from pegboard.config import ServerConfig, Timeouts
from pegboard.storage import Store, open_store
from pegboard.upstream.catalog.failed_starts import FailedStarts
from pegboard.upstream.catalog.offline_catalog import catalog_key

CONFIG = ServerConfig(
    name="it", transport="stdio", command="it", env={"MY_TOKEN": "canary-0123456789abcdef"}
)


@pytest.fixture(autouse=True)
def no_blocking_calls() -> None:
    """The caller waits, and nothing else runs beside it."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(str(tmp_path / "it.db")) as opened:
        yield opened


def test_a_failure_is_kept_without_secrets_until_it_starts(store: Store) -> None:
    FailedStarts(store).note([CONFIG], {"it": "no: canary-0123456789abcdef"})
    failed = FailedStarts(store).get(CONFIG)
    assert failed is not None
    assert failed.is_fresh
    assert "canary" not in failed.error
    FailedStarts(store).note([CONFIG], {})
    assert FailedStarts(store).get(CONFIG) is None


@pytest.mark.parametrize(
    "other",
    [
        replace(CONFIG, command="other"),
        replace(CONFIG, env={}),
        replace(CONFIG, timeouts=Timeouts(connect=60)),
    ],
)
def test_an_entry_that_changed_has_not_failed(store: Store, other: ServerConfig) -> None:
    FailedStarts(store).note([CONFIG], {"it": "no"})
    assert FailedStarts(store).get(other) is None


def test_what_failed_long_ago_is_forgotten_with_its_entry(store: Store) -> None:
    values = store.namespace("failed-starts")
    values.put("old", {"error": "no", "at": 0.0, "patience": 30.0})
    values.put("strange", 7)
    FailedStarts(store).note([CONFIG], {"it": "no"})
    assert set(values.keys()) == {catalog_key(CONFIG), "strange"}


@pytest.mark.parametrize("at", [0.0, 1e12])
def test_long_ago_and_in_the_future_are_no_reason_to_wait(store: Store, at: float) -> None:
    FailedStarts(store).note([CONFIG], {"it": "no"})
    values = store.namespace("failed-starts")
    stored = values.get(catalog_key(CONFIG))
    assert stored is not None
    values.put(catalog_key(CONFIG), {**stored.value, "at": at})
    failed = FailedStarts(store).get(CONFIG)
    assert failed is not None
    assert not failed.is_fresh


@pytest.mark.parametrize("value", [None, 7, [], {}, {"error": 1, "at": "x", "patience": 30.0}])
def test_what_cannot_be_understood_is_no_failure(store: Store, value: object) -> None:
    store.namespace("failed-starts").put(catalog_key(CONFIG), value)
    assert FailedStarts(store).get(CONFIG) is None
