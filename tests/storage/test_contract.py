from collections.abc import Callable

import pytest

from pegboard.storage import DEFAULT_TENANT, Store, open_store
from pegboard.testing import StoreContract


class TestEveryStore(StoreContract):
    @pytest.fixture(autouse=True)
    def where(self, place: Callable[[str], Store]) -> None:
        self.place = place

    def open(self, tenant: str) -> Store:
        return self.place(tenant)


class TestTheDefaultTenantOfAFile(StoreContract):
    """Whose JSON is the file itself, which people edit."""

    @pytest.fixture(autouse=True)
    def where(self, new_url: Callable[[str], str]) -> None:
        self.url = new_url("json")

    @pytest.fixture
    def tenant(self) -> str:
        return DEFAULT_TENANT

    def open(self, tenant: str) -> Store:
        return open_store(self.url, tenant=tenant)
