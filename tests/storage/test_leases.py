import time

import pytest

from pegboard.storage import LEASES, lease
from pegboard.testing import Memory


def test_one_at_a_time_has_the_job() -> None:
    with Memory().open() as store:
        values = store.namespace(LEASES)
        with lease(values, "job") as first, lease(values, "job") as second:
            assert (first, second) == (True, False)
            with lease(values, "other") as other:
                assert other
        with lease(values, "job") as again:
            assert again


@pytest.mark.parametrize(
    "value",
    [
        {"holder": "dead", "until": 0.0},
        {"holder": "of a wrong clock", "until": time.time() + 10 * 365 * 86400},
        {"holder": "malformed", "until": "soon"},
        {},
        "nonsense",
        None,
    ],
)
def test_a_lease_that_no_process_can_hold_is_free(value: object) -> None:
    with Memory().open() as store:
        values = store.namespace(LEASES)
        values.put("job", value)
        with lease(values, "job") as mine:
            assert mine


def test_a_store_that_is_closed_meanwhile_does_no_harm() -> None:
    store = Memory().open()
    with lease(store.namespace(LEASES), "job") as mine:
        assert mine
        store.close()
