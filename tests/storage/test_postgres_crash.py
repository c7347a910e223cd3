import pytest

from tests.storage.crashes import RUNS, crash_runs
from tests.storage.postgres_server import PostgresServer


@pytest.mark.timeout(20 + 5 * RUNS)
def test_what_was_acknowledged_survives_the_death_of_the_writer(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    crash_runs(lambda run: postgres_url)
    # Nothing is left half-done, and no session holds a lock.
    left = postgres_server.execute(
        "SELECT pid, state, query FROM pg_stat_activity "
        "WHERE datname = current_database() AND xact_start < now() - interval '10 seconds'",
        url=postgres_url,
    )
    assert left == []
