import pytest


@pytest.fixture(autouse=True)
def no_blocking_calls() -> None:
    """Pages are read, imported and run here as a reader would: blocking is no fault."""
