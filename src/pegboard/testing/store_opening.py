"""Fixtures of the store contract: open stores for a test, and make sample tools."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest

from pegboard.model import Annotations, Tool
from pegboard.storage import Store

__all__ = ["FULL", "OpensStores", "tool"]

FULL = Tool(
    name="github.create_issue",
    description="Open an issue.\nIn a repository; 在仓库中 \N{PUSHPIN}",
    input_schema={
        "type": "object",
        "properties": {
            "title": {"type": "string", "minLength": 1},
            "labels": {"type": "array", "items": {"type": "string"}, "default": []},
            "weight": {"type": "number", "maximum": 1.5, "default": -0.25},
            "draft": {"type": "boolean", "default": False, "const": None},
        },
        "required": ["title"],
        "$defs": {"": {}},
    },
    output_schema={"type": "object"},
    annotations=Annotations(
        title="Create", read_only=False, destructive=True, idempotent=False, open_world=True
    ),
    server="github",
    tags=("git", "issues", "git", ""),
    category="development",
    defer_loading=True,
)
"""A tool with a value in every field."""


def tool(name: str, description: str = "") -> Tool:
    """Return a tool with few fields."""
    return Tool(name=name, description=description)


class OpensStores:
    """Gives every test a store, a second one on the same data, and one of another tenant."""

    def open(self, tenant: str) -> Store:
        """Open the store under test for one tenant; write this in your class."""
        raise NotImplementedError(
            "Write `def open(self, tenant: str) -> Store` in your subclass of StoreContract; each "
            "test opens several stores, which must all share the same data."
        )

    @pytest.fixture
    def tenant(self) -> str:
        """A tenant with a new name, so that tests can share one database."""
        return f"tenant-{uuid.uuid4()}"

    @pytest.fixture
    def opened(self) -> Iterator[Callable[[str], Store]]:
        """A function that opens stores, which are closed after the test."""
        with ExitStack() as stack:
            yield lambda tenant: stack.enter_context(closing(self.open(tenant)))

    @pytest.fixture
    def store(self, opened: Callable[[str], Store], tenant: str) -> Store:
        """The store."""
        return opened(tenant)

    @pytest.fixture
    def twin(self, opened: Callable[[str], Store], tenant: str, store: Store) -> Store:
        """The same data, opened a second time."""
        assert store.tenant == tenant
        return opened(tenant)

    @pytest.fixture
    def stranger(self, opened: Callable[[str], Store], tenant: str) -> Store:
        """The same database, opened for another tenant."""
        return opened(f"{tenant}-2")
