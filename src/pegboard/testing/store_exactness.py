"""The store contract for unusual content: refused before a write, or stored exactly."""
# ruff: noqa: D102 - the names of the tests say it

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from pegboard.errors import InvalidToolError
from pegboard.model import Tool
from pegboard.storage import Store, StoredTool, Use
from pegboard.testing.store_opening import OpensStores, tool

__all__ = ["ExactnessContract"]

ODD_TEXTS = {
    "NUL": "a\0b",
    "controls": "".join(map(chr, [*range(32), *range(127, 160)])),
    "a megabyte": "çé\N{PUSHPIN}x" * 131_072,
    "SQL": "Robert'); DROP TABLE tools; --",
    "placeholders": "%s %(name)s ? :1 $1 {} %% \\",
    "escapes": "\\u0000 \\\" \\\\ ' \\N{BEL}",
    "separators": "\u2028\u2029\ufeff\ufffe\uffff",
}
ALIKE = [
    *("caf\u00e9", "cafe\u0301", "CAF\u00c9", "caf\u00e9 ", " caf\u00e9", "cafe"),
    *("stra\u00dfe", "strasse", "\u0130", "i", "I", "\u0131"),
    *("%", "_", "*", "?", "a%", "ab", "a_", "'", '"', "`", "\\", "\\\\", "''", "--", ";"),
    *("..", "../a", "/", "a/b", "a\\b", "~", "$HOME", "null", "None", "0", "00", "default"),
    *("Robert'); DROP TABLE tools; --", "' OR '1'='1", "\N{PUSHPIN}", "\N{PUSHPIN}\ufe0f"),
]
LONGEST = "".join(chr(0x20000 + number * 7) for number in range(512))
"""As many characters as a key may have, all of them long in UTF-8 and hard to compress."""
BAD_KEYS: list[Any] = ["", "a" * 513, "a\0", "\n", "a\x7f", "\ud800", "a\udfff", None, 7, b"a"]
BAD_NAMES: list[Any] = [*BAD_KEYS, "  ", "a\tb", "\u200b", "a\u2028b"]
BAD_JSON: dict[str, Any] = {
    "not a number": float("nan"),
    "infinite": [float("-inf")],
    "half a letter": {"a": ["\ud800"]},
    "half a letter as a key": {"\udfff": 1},
    "a number as a key": {"a": {1: 2}},
    "nothing as a key": {"a": {None: 2}},
    "a date": {"a": datetime(2026, 1, 1, tzinfo=UTC)},
    "bytes": {"a": b"b"},
    "a set": {"a": {1}},
    "an object": {"a": object()},
}
REFUSALS = (TypeError, ValueError)


class ExactnessContract(OpensStores):
    """A store refuses content that would come back different."""

    @pytest.mark.parametrize("text", ODD_TEXTS.values(), ids=ODD_TEXTS)
    def test_odd_text_comes_back_exactly(self, store: Store, twin: Store, text: str) -> None:
        schema = {"properties": {text: {"default": text, "enum": [text]}}}
        odd = Tool(
            name="a",
            description=text,
            input_schema=schema,
            output_schema=schema,
            server=text,
            tags=(text,),
            category=text,
        )
        store.save(StoredTool(tool=odd, extras={text: text}))
        store.namespace("pins").put("a", {text: [text]})
        [found] = twin.load_all()
        assert found.tool == odd
        assert found.extras == {text: text}
        value = twin.namespace("pins").get("a")
        assert value is not None
        assert value.value == {text: [text]}

    def test_names_that_look_alike_are_different(self, store: Store, twin: Store) -> None:
        names = [*ALIKE, LONGEST, LONGEST[::-1]]
        store.save_many(tool(name, f"<{name}>") for name in names)
        moment = datetime(2026, 1, 1, tzinfo=UTC)
        store.add_usage({name: Use(number + 1, moment) for number, name in enumerate(names)})
        assert [it.tool.name for it in twin.load_all()] == names[::-1]
        for number, name in enumerate(names):
            assert twin.load([name])[name].tool.description == f"<{name}>"
            assert twin.usage([name])[name].use_frequency == number + 1
        for number, name in enumerate(names):
            assert store.delete(name)
            assert len(twin.load_all()) == len(names) - number - 1

    def test_keys_that_look_alike_are_different(self, store: Store, twin: Store) -> None:
        keys = [*ALIKE, LONGEST, LONGEST[::-1], "\u200b", "\x80", "\u2028", "a\xa0"]
        store.namespace(LONGEST).put_many({key: [key] for key in keys})
        found = twin.namespace(LONGEST).items()
        assert {key: it.value for key, it in found.items()} == {key: [key] for key in keys}
        assert list(found) == sorted(keys)
        for key in keys:
            assert store.namespace(LONGEST).delete([key]) == 1
            assert twin.namespace(LONGEST).get(key) is None

    def test_namespaces_that_look_alike_are_different(self, store: Store) -> None:
        names = [*ALIKE, LONGEST]
        for name in names:
            store.namespace(name).put("key", name)
        assert store.namespaces() == sorted(names)
        for name in names:
            assert [it.value for it in store.namespace(name).items().values()] == [name]

    def test_tenants_that_look_alike_are_different(
        self, opened: Callable[[str], Store], tenant: str
    ) -> None:
        alike = [f"{tenant[-12:]}{it}" for it in ALIKE]
        longest = tenant[-12:] + LONGEST[12:]
        stores = [opened(name) for name in [*alike, longest, longest[::-1]]]
        for store in stores:
            store.save(tool("a", store.tenant))
            store.namespace("pins").put("a", store.tenant)
        for store in stores:
            assert [it.tool.description for it in store.load_all()] == [store.tenant]
            [value] = store.namespace("pins").items().values()
            assert value.value == store.tenant
            store.close()

    @pytest.mark.parametrize("name", BAD_NAMES, ids=ascii)
    def test_bad_names_are_refused(self, store: Store, name: Any) -> None:
        moment = datetime(2026, 1, 1, tzinfo=UTC)
        with pytest.raises(REFUSALS):
            store.add_usage({"good": Use(1, moment), name: Use(1, moment)})
        for read in (store.load, store.usage):
            with pytest.raises(REFUSALS):
                read([name])
        with pytest.raises(REFUSALS):
            store.delete(name)
        assert store.usage() == {}

    @pytest.mark.parametrize("key", BAD_KEYS, ids=ascii)
    def test_bad_keys_are_refused(self, store: Store, key: Any) -> None:
        values = store.namespace("pins")
        attempts: list[Callable[[], object]] = [
            lambda: values.put(key, 1),
            lambda: values.put_many({"good": 1, key: 2}),
            lambda: values.get(key),
            lambda: values.delete(["good", key]),
            lambda: store.namespace(key).put("good", 1),
            lambda: store.elected(key).__enter__(),
        ]
        for attempt in attempts:
            with pytest.raises(REFUSALS):
                attempt()
        assert store.namespaces() == []

    @pytest.mark.parametrize("tenant_name", BAD_KEYS, ids=ascii)
    def test_bad_tenants_are_refused(self, tenant_name: Any) -> None:
        with pytest.raises(REFUSALS):
            self.open(tenant_name)

    @pytest.mark.parametrize("value", BAD_JSON.values(), ids=BAD_JSON)
    def test_what_json_cannot_hold_is_refused(self, store: Store, value: Any) -> None:
        store.save(tool("a", "1"))
        store.namespace("pins").put("a", 1)
        broken = Tool(name="a", input_schema={"default": value})
        attempts: list[Callable[[], object]] = [
            lambda: store.save(broken),
            lambda: store.save_many([tool("b"), broken]),
            lambda: store.save(Tool(name="a", output_schema={"default": value})),
        ]
        for attempt in attempts:
            with pytest.raises(InvalidToolError):
                attempt()
        with pytest.raises(REFUSALS):
            store.save(StoredTool(tool=tool("a", "2"), extras={"more": value}))
        with pytest.raises(ValueError, match="'a'"):
            store.namespace("pins").put("a", value)
        with pytest.raises(ValueError, match="'a'"):
            store.namespace("pins").put_many({"b": 1, "a": value})
        assert [it.tool.description for it in store.load_all()] == ["1"]
        assert {key: it.value for key, it in store.namespace("pins").items().items()} == {"a": 1}

    @pytest.mark.parametrize("field", ["description", "server", "category", "tags"])
    def test_half_a_letter_is_refused_in_every_field(self, store: Store, field: str) -> None:
        half: object = ("\ud800",) if field == "tags" else "\ud800"
        with pytest.raises(InvalidToolError):
            store.save(Tool(name="a", **cast("Any", {field: half})))
        assert store.load_all() == []

    @pytest.mark.parametrize("number", [2**63, 2**64, 10**30, -(2**63) - 1, 10**400, 1e308, 5e-324])
    def test_a_large_number_is_refused_or_kept_exactly(self, store: Store, number: float) -> None:
        try:
            store.save(Tool(name="a", input_schema={"maximum": number}))
            store.namespace("pins").put("a", [number])
        except REFUSALS:
            assert store.namespaces() == []
        else:
            assert store.load(["a"])["a"].tool.input_schema == {"maximum": number}
            found = store.namespace("pins").get("a")
            assert found is not None
            assert found.value == [number]

    def test_deep_nesting_is_refused_or_kept_exactly(
        self, store: Store, opened: Callable[[str], Store]
    ) -> None:
        # The deepest accepted value is tested, because it has to be readable afterwards.
        taken, refused = 100, 100_000
        assert _saved(store, taken)
        assert not _saved(store, refused)
        while refused - taken > 1:
            middle = (taken + refused) // 2
            if _saved(store, middle):
                taken = middle
            else:
                refused = middle
        _saved(store, taken)
        store.close()
        again = opened(store.tenant)
        again.check()
        [found] = again.load_all()
        assert _depth(found.tool.input_schema["default"]) == taken
        value = again.namespace("pins").get("deep")
        assert value is not None
        assert _depth(value.value) == taken


def _saved(store: Store, depth: int) -> bool:
    nested: Any = 1
    for _ in range(depth):
        nested = [nested]
    try:
        store.save(Tool(name="deep", input_schema={"default": nested}))
        store.namespace("pins").put("deep", nested)
    except REFUSALS:
        return False
    return True


def _depth(nested: Any) -> int:
    depth = 0
    while isinstance(nested, list):
        nested = cast("list[Any]", nested)[0]
        depth += 1
    return depth
