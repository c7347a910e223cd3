"""Contract tests and fakes for plug-in authors, for pytest: StoreContract, SearcherContract."""

import pytest

# Before the imports, so that a failed assertion shows the compared values.
pytest.register_assert_rewrite(
    "pegboard.testing.searcher_contract",
    "pegboard.testing.store_contract",
    "pegboard.testing.store_exactness",
    "pegboard.testing.store_opening",
    "pegboard.testing.store_sharing",
    "pegboard.testing.store_tools",
    "pegboard.testing.store_values",
    "pegboard.testing.store_watching",
)

from pegboard.testing.memory_store import Memory, MemoryStore  # noqa: E402 - see above
from pegboard.testing.searcher_contract import SearcherContract  # noqa: E402 - see above
from pegboard.testing.store_contract import StoreContract  # noqa: E402 - see above

__all__ = ["Memory", "MemoryStore", "SearcherContract", "StoreContract"]
