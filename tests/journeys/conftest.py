"""One cell of the matrix: a face, the era of the client, the era of the upstream."""

import pytest

from tests.journeys.journey import CELLS, Cell


@pytest.fixture(params=CELLS, ids=str)
def cell(request: pytest.FixtureRequest) -> Cell:
    return request.param
