"""Archives: everything of a tenant in one document."""

from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegboard import StorageError, Tool
from pegboard.model import Usage
from pegboard.storage import LEASES, StoredTool
from pegboard.storage.export_import import archived, read_archive, restore
from pegboard.testing import Memory, MemoryStore

NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,10}", fullmatch=True)
TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20)
JSON = st.sampled_from([None, True, 0, -(2**53), 1.5, "", "付款", [1, [2]], {"a": {"b": []}}])


@given(
    tools=st.dictionaries(
        NAMES, st.tuples(TEXTS, st.dictionaries(NAMES, JSON, max_size=2)), max_size=4
    ),
    values=st.dictionaries(NAMES, st.dictionaries(NAMES, JSON, min_size=1, max_size=3), max_size=3),
    used=st.dictionaries(NAMES, st.integers(1, 10**9), max_size=3),
)
def test_what_is_archived_comes_back_the_same(
    tools: dict[str, tuple[str, dict[str, object]]],
    values: dict[str, dict[str, object]],
    used: dict[str, int],
) -> None:
    source, target = Memory().open(), Memory().open()
    source.save_many(
        StoredTool(
            tool=Tool(name=name, description=about), extras={f"x-{k}": v for k, v in extras.items()}
        )
        for name, (about, extras) in tools.items()
    )
    moment = datetime(2026, 1, 2, tzinfo=UTC)
    source.set_usage({name: Usage(use_frequency=n, last_used=moment) for name, n in used.items()})
    for room, inside in values.items():
        source.namespace(room).put_many(inside)
    source.namespace(LEASES).put("job", "mine")
    archive = read_archive(msgspec.json.encode(archived([source])), name="it")
    for tenant in archive.tenants:
        restore(tenant, target)
    assert _all(target, without=LEASES) == _all(source, without=LEASES)
    assert target.namespace(LEASES).items() == {}


def _all(store: MemoryStore, *, without: str) -> object:
    return (
        {it.tool.name: (it.tool, dict(it.extras)) for it in store.load_all()},
        store.usage(),
        {
            name: {key: it.value for key, it in store.namespace(name).items().items()}
            for name in store.namespaces()
            if name != without
        },
    )


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\xff",
        b"[" * 100_000,
        b'{"format": "other", "tenants": []}',
        b'{"tenants": [{"tenant": "", "tools": [], "usage": {}, "values": {}}]}',
    ],
)
def test_what_is_no_archive_is_an_error_of_ours(text: bytes) -> None:
    with pytest.raises(StorageError, match="not an archive"):
        read_archive(text, name="it")


def test_a_tool_that_is_none_changes_nothing() -> None:
    text = b'{"tenants": [{"tenant": "a", "tools": [{"tool": {"name": "ok"}}, {"tool": 5}], '
    text += b'"usage": {}, "values": {}}]}'
    store = Memory().open()
    with pytest.raises(StorageError, match="cannot hold"):
        restore(read_archive(text, name="it").tenants[0], store)
    assert store.load_all() == []
