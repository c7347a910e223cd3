"""Keys in every kind of store, and in memory."""

from collections.abc import Callable, Iterator

import pytest

from pegboard.auth import ApiKeys
from pegboard.auth import signing_keys as fetch
from pegboard.model.principal import OPERATOR
from pegboard.storage import Store, open_store
from pegboard.testing import Memory
from tests.storage.conftest import KINDS, new_url, postgres_server, postgres_url

__all__ = [
    "keys",
    "memory",
    "new_url",
    "open_operator",
    "patient_fetches",
    "postgres_server",
    "postgres_url",
]


@pytest.fixture(autouse=True)
def patient_fetches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that is busy with other tests takes its time."""
    monkeypatch.setattr(fetch, "SECONDS", 30.0)


@pytest.fixture(params=KINDS)
def open_operator(
    request: pytest.FixtureRequest, new_url: Callable[[str], str]
) -> Callable[[], Store]:
    """Opens the operator's store, of each kind in turn."""
    url = new_url(request.param)
    return lambda: open_store(url, tenant=OPERATOR)


@pytest.fixture
def memory() -> Memory:
    return Memory()


@pytest.fixture
def keys(memory: Memory) -> Iterator[ApiKeys]:
    with memory.open(OPERATOR) as store, ApiKeys(store) as made:
        yield made
