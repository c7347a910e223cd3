"""Proof for those who write their own parts of Pegboard: contracts as tests. It needs pytest."""

import pytest

# Before they are imported, or a failed assertion would not say what it compared.
pytest.register_assert_rewrite(
    "pegboard.testing.searcher_contract",
    "pegboard.testing.store_contract",
    "pegboard.testing.store_exactness",
    "pegboard.testing.store_opening",
    "pegboard.testing.store_sharing",
    "pegboard.testing.store_tools",
    "pegboard.testing.store_usage",
    "pegboard.testing.store_values",
    "pegboard.testing.store_watching",
)

from pegboard.testing.memory_store import Memory, MemoryStore  # noqa: E402 - see above
from pegboard.testing.searcher_contract import SearcherContract  # noqa: E402 - see above
from pegboard.testing.store_contract import StoreContract  # noqa: E402 - see above

__all__ = ["Memory", "MemoryStore", "SearcherContract", "StoreContract"]
