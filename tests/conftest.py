"""What every test needs: one backend, no blocking calls on an event loop."""

from collections.abc import Iterator

import pytest
from blockbuster import BlockBuster, blockbuster_ctx
from hypothesis import HealthCheck, settings

from pegboard import CallRecord

# How long an example takes says more about the machine than about our code.
settings.register_profile(
    "unhurried", parent=settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("unhurried")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def no_blocking_calls() -> Iterator[BlockBuster]:
    """Fail when our own code blocks an event loop."""
    with blockbuster_ctx("pegboard") as detector:
        # A record is one short write to a local file, like a line of any log.
        detector.functions["os.write"].can_block_in("pegboard/observe/json_lines.py", "__call__")
        # `call` inside a running loop waits on purpose; that is what it is for.
        for name in ("threading.Lock.acquire", "lock.acquire"):
            if name in detector.functions:
                detector.functions[name].deactivate()
        yield detector


@pytest.fixture
def records() -> list[CallRecord]:
    """Collects call records: pass its `append` as an observer."""
    return []
