"""Two tenants in one place, written to in every order: each is what it would be alone."""

import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pegboard import Tool
from pegboard.errors import RevisionConflictError
from pegboard.model import Usage
from pegboard.storage import ANY, Store, StoredTool, Use

NAMES = st.sampled_from(["a", "b", "A", "a ", "%", "' OR '1'='1"])
ROOMS = st.sampled_from(["pins", "Pins"])
WORDS = st.sampled_from(["", "x", "y\0", "é"])
MOMENTS = st.integers(0, 9).map(lambda days: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days))
STEPS = st.one_of(
    st.tuples(st.just("save"), NAMES, WORDS),
    st.tuples(st.just("save_with_extras"), NAMES, WORDS),
    st.tuples(st.just("save_if_absent"), NAMES, WORDS),
    st.tuples(st.just("save_many"), st.lists(NAMES, max_size=3), WORDS),
    st.tuples(st.just("delete"), NAMES),
    st.tuples(st.just("add_usage"), NAMES, st.integers(1, 3), MOMENTS),
    st.tuples(st.just("set_usage"), NAMES, st.integers(1, 3), MOMENTS),
    st.tuples(st.just("put"), ROOMS, NAMES, WORDS),
    st.tuples(st.just("put_if_absent"), ROOMS, NAMES, WORDS),
    st.tuples(st.just("put_many"), ROOMS, st.lists(NAMES, max_size=3), WORDS),
    st.tuples(st.just("forget"), ROOMS, st.lists(NAMES, max_size=3)),
)


class Expected(msgspec.Struct):
    """What one tenant has, as plain dictionaries."""

    tools: dict[str, tuple[str, dict[str, Any]]] = {}
    usage: dict[str, Usage] = {}
    values: dict[str, dict[str, Any]] = {}

    def save(self, name: str, word: str) -> bool:
        self.tools[name] = (word, self.tools[name][1] if name in self.tools else {})
        return True

    def save_with_extras(self, name: str, word: str) -> bool:
        self.tools[name] = (word, {"owner": word})
        return True

    def save_if_absent(self, name: str, word: str) -> bool:
        return name not in self.tools and self.save(name, word)

    def save_many(self, names: list[str], word: str) -> bool:
        return all(self.save(name, word) for name in names)

    def delete(self, name: str) -> bool:
        self.usage.pop(name, None)
        return self.tools.pop(name, None) is not None

    def add_usage(self, name: str, count: int, moment: datetime) -> bool:
        old = self.usage.get(name, Usage())
        self.usage[name] = Usage(
            use_frequency=old.use_frequency + count, last_used=max(old.last_used or moment, moment)
        )
        return True

    def set_usage(self, name: str, count: int, moment: datetime) -> bool:
        self.usage[name] = Usage(use_frequency=count, last_used=moment)
        return True

    def put(self, room: str, key: str, word: str) -> bool:
        self.values.setdefault(room, {})[key] = word
        return True

    def put_if_absent(self, room: str, key: str, word: str) -> bool:
        return key not in self.values.get(room, {}) and self.put(room, key, word)

    def put_many(self, room: str, keys: list[str], word: str) -> bool:
        return all(self.put(room, key, word) for key in keys)

    def forget(self, room: str, keys: list[str]) -> int:
        return sum(self.values.get(room, {}).pop(key, None) is not None for key in set(keys))


class Real:
    """The same moves on a store."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def save(self, name: str, word: str, *, expected: Any = ANY) -> bool:
        self.store.save(Tool(name=name, description=word), expected=expected)
        return True

    def save_with_extras(self, name: str, word: str) -> bool:
        tool = Tool(name=name, description=word)
        self.store.save(StoredTool(tool=tool, extras={"owner": word}))
        return True

    def save_if_absent(self, name: str, word: str) -> bool:
        try:
            return self.save(name, word, expected=None)
        except RevisionConflictError:
            return False

    def save_many(self, names: list[str], word: str) -> bool:
        self.store.save_many(Tool(name=name, description=word) for name in names)
        return True

    def delete(self, name: str) -> bool:
        return self.store.delete(name)

    def add_usage(self, name: str, count: int, moment: datetime) -> bool:
        self.store.add_usage({name: Use(count, moment)})
        return True

    def set_usage(self, name: str, count: int, moment: datetime) -> bool:
        self.store.set_usage({name: Usage(use_frequency=count, last_used=moment)})
        return True

    def put(self, room: str, key: str, word: str, *, expected: Any = ANY) -> bool:
        self.store.namespace(room).put(key, word, expected=expected)
        return True

    def put_if_absent(self, room: str, key: str, word: str) -> bool:
        try:
            return self.put(room, key, word, expected=None)
        except RevisionConflictError:
            return False

    def put_many(self, room: str, keys: list[str], word: str) -> bool:
        self.store.namespace(room).put_many(dict.fromkeys(keys, word))
        return True

    def forget(self, room: str, keys: list[str]) -> int:
        return self.store.namespace(room).delete(keys)


def agree(store: Store, expected: Expected) -> None:
    found = {it.tool.name: (it.tool.description, dict(it.extras)) for it in store.load_all()}
    assert found == expected.tools
    assert set(store.load([*"abA%", "a ", "' OR '1'='1"])) == set(expected.tools)
    assert store.usage() == expected.usage
    rooms = {
        room: {key: it.value for key, it in store.namespace(room).items().items()}
        for room in store.namespaces()
    }
    assert rooms == {room: values for room, values in expected.values.items() if values}


@pytest.mark.covers("R-REG-39")
# The place stays; the tenants are new in every example.
@settings(
    max_examples=30,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=st.lists(st.tuples(st.booleans(), STEPS), max_size=12))
def test_each_of_two_tenants_has_exactly_what_it_would_have_alone(
    place: Callable[[str], Store], steps: list[tuple[bool, tuple[Any, ...]]]
) -> None:
    tenant = f"t{uuid.uuid4().hex}"
    with place(tenant) as lower, place(tenant.upper()) as upper:
        sides = [(Real(lower), Expected()), (Real(upper), Expected())]
        for which, (move, *arguments) in steps:
            real, expected = sides[which]
            assert getattr(real, move)(*arguments) == getattr(expected, move)(*arguments)
            for side, wanted in sides:
                agree(side.store, wanted)
