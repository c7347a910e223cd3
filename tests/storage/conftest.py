"""Every kind of store, each in a place of its own."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from pegboard.storage import Store, open_store
from pegboard.testing import Memory
from tests.storage.postgres_server import PostgresServer, postgres_server, postgres_url

__all__ = ["KINDS", "new_url", "place", "postgres_server", "postgres_url"]

KINDS = ["json", "sqlite", "postgres"]


@pytest.fixture
def new_url(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[[str], str]]:
    """Return the URL of an empty store of a kind."""
    with ExitStack() as stack:
        places = iter(range(1_000))

        def url(kind: str) -> str:
            place = tmp_path / f"{next(places)}"
            match kind:
                case "json":
                    return f"{place}.json"
                case "sqlite":
                    return f"sqlite://{place}.db"
                case _:
                    # Only those who ask for it wait for the server.
                    server: PostgresServer = request.getfixturevalue("postgres_server")
                    made = server.new_database()
                    stack.callback(server.drop_database, made)
                    return made

        yield url


@pytest.fixture(scope="session")
def shared_database(postgres_server: PostgresServer) -> str:
    """A database for all tests that bring tenants of their own: making one takes its time."""
    return postgres_server.new_database()


@pytest.fixture(params=[*KINDS, "memory"])
def place(request: pytest.FixtureRequest, new_url: Callable[[str], str]) -> Callable[[str], Store]:
    """One place for stores, of each kind in turn; it opens them by tenant."""
    if request.param == "memory":
        return Memory().open
    if request.param == "postgres":
        url: str = request.getfixturevalue("shared_database")
    else:
        url = new_url(request.param)
    return lambda tenant: open_store(url, tenant=tenant)
