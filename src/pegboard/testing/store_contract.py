"""StoreContract: every sentence of the `Store` protocol as a test."""

from pegboard.testing.store_closing import ClosingContract
from pegboard.testing.store_exactness import ExactnessContract
from pegboard.testing.store_sharing import SharingContract
from pegboard.testing.store_tools import ToolsContract
from pegboard.testing.store_usage import UsageContract
from pegboard.testing.store_values import ValuesContract
from pegboard.testing.store_watching import WatchingContract

__all__ = ["StoreContract"]


class StoreContract(
    ToolsContract,
    UsageContract,
    ValuesContract,
    ExactnessContract,
    SharingContract,
    WatchingContract,
    ClosingContract,
):
    """Proves that a `Store` keeps its promises.

    Subclass it in your tests and write `open`::

        class TestMyStore(StoreContract):
            @pytest.fixture(autouse=True)
            def place(self, tmp_path):
                self.path = tmp_path / "mine"

            def open(self, tenant):
                return MyStore(self.path, tenant)

    Every store that one test opens has to be in the same place. Tests use tenants with new names,
    so one place may serve them all.
    """
