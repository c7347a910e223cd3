"""Whatever a file holds, it is read or reported; nothing else is raised."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pegboard.config import load_servers, parse_jsonc
from pegboard.config.files.dialects import SECTIONS
from pegboard.config.files.entry import IGNORED, SPELLINGS
from pegboard.errors import ConfigError

FIELDS = sorted(
    {
        *IGNORED,
        *(name for kind in SPELLINGS for name in (*kind.__struct_fields__, *SPELLINGS[kind])),
    }
)
TEXTS = st.text() | st.sampled_from(
    ["stdio", "http", "https://x.test/sse", "http://[", "${A}", "${A:-b}", "${", "~/x", "auto"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(FIELDS) | st.text(), inner, max_size=5)
    ),
    max_leaves=25,
)
ENTRIES = st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=6)
FILES = JSON | st.dictionaries(
    st.sampled_from([path[0] for path in SECTIONS]),
    st.dictionaries(st.text(), ENTRIES | JSON, max_size=3),
)


@given(FILES)
def test_anything_is_read_or_reported(content: Any) -> None:
    if not isinstance(content, dict):
        content = {"mcpServers": content}
    loaded = load_servers(content, environ={"A": "b"})
    told = {problem.server for problem in loaded.problems}
    names = {server.name for server in loaded.servers}
    for section in ("mcpServers", "servers", "context_servers"):
        entries = content.get(section)
        if isinstance(entries, dict):
            assert set(entries) <= told | names


@given(st.text() | st.text(alphabet='{}[]",:/*\\u0123 \n') | st.binary())
def test_any_text_is_parsed_or_refused_with_its_line(content: str | bytes) -> None:
    error = refusal(content)
    if error is not None:
        assert error.line is not None
        newline: Any = "\n" if isinstance(content, str) else b"\n"
        assert 1 <= error.line <= content.count(newline) + 1


def refusal(content: str | bytes) -> ConfigError | None:
    try:
        parse_jsonc(content)
    except ConfigError as error:
        return error
    return None
