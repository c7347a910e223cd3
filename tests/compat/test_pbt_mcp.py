"""The six properties of the document, each over at least a hundred examples."""

import inspect
import string
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pegboard.compat.excelmanus import (
    MCPClientWrapper,
    MCPConfigLoader,
    MCPManager,
    MCPServerConfig,
    ToolRegistry,
)
from pegboard.config import ServerConfig
from pegboard.registry.background_loop import run_in_background
from tests.compat.excelmanus_servers import in_memory, tool
from tests.requirements.ties import tied_tests

parse: Any = MCPConfigLoader._parse_config  # pyright: ignore[reportPrivateUsage]
thorough = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])

LETTERS = string.ascii_letters + string.digits + "_-"
NAMES = st.text(LETTERS, min_size=1, max_size=12)
TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
SOME_TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20).filter(str.strip)
COMMON = {"timeout": st.integers(1, 3600)}
PROCESS = {"args": st.lists(TEXT, max_size=3), "env": st.dictionaries(TEXT, TEXT, max_size=3)}
STDIO = st.fixed_dictionaries(
    {"transport": st.just("stdio"), "command": SOME_TEXT},
    optional={**COMMON, **PROCESS, "url": TEXT},
)
SSE = st.fixed_dictionaries(
    {"transport": st.just("sse"), "url": SOME_TEXT}, optional={**COMMON, **PROCESS, "command": TEXT}
)
VALID = STDIO | SSE
TRANSPORTS = ("stdio", "sse", "streamable_http")
INVALID = st.one_of(
    VALID.map(lambda entry: {key: it for key, it in entry.items() if key != "transport"}),
    VALID.flatmap(
        lambda entry: TEXT.filter(lambda it: it not in TRANSPORTS).map(
            lambda transport: {**entry, "transport": transport}
        )
    ),
    STDIO.map(lambda entry: {key: it for key, it in entry.items() if key != "command"}),
    SSE.map(lambda entry: {key: it for key, it in entry.items() if key != "url"}),
)
SCHEMAS = st.dictionaries(
    st.text(string.ascii_letters, min_size=1),
    st.sampled_from([{"type": "string"}, {"type": "integer"}, {}]),
    max_size=3,
).map(lambda properties: {"type": "object", "properties": properties})


# Feature: mcp-client-integration, Property 1: a configuration survives being parsed
@pytest.mark.covers("R-EXCEL-42", "R-EXCEL-57")
@thorough
@given(st.dictionaries(SOME_TEXT, VALID, max_size=5))
def test_property_1_every_field_comes_out_as_it_went_in(entries: dict[str, Any]) -> None:
    parsed = parse({"mcpServers": entries})
    assert parsed == [
        MCPServerConfig(
            name=name,
            transport=entry["transport"],
            command=entry.get("command"),
            args=entry.get("args"),
            env=entry.get("env"),
            url=entry.get("url"),
            timeout=entry.get("timeout", 30),
        )
        for name, entry in entries.items()
    ]


# Feature: mcp-client-integration, Property 2: exactly the invalid entries are left out
@pytest.mark.covers("R-EXCEL-43", "R-EXCEL-57")
@thorough
@given(st.dictionaries(SOME_TEXT, VALID), st.dictionaries(TEXT, INVALID), st.randoms())
def test_property_2_exactly_the_valid_entries_are_kept(
    valid: dict[str, Any], invalid: dict[str, Any], random: Any
) -> None:
    mixed = list({**invalid, **valid}.items())
    random.shuffle(mixed)
    parsed = parse({"mcpServers": dict(mixed)})
    assert [server.name for server in parsed] == [name for name, _ in mixed if name in valid]


# Feature: mcp-client-integration, Property 3: a definition is converted by the rules
@pytest.mark.covers("R-EXCEL-44", "R-EXCEL-57", "R-EXCEL-38")
@thorough
@given(NAMES, NAMES, TEXT, SCHEMAS)
def test_property_3_a_tool_has_its_prefix_its_words_and_its_schema(
    server: str, name: str, description: str, schema: dict[str, Any]
) -> None:
    client = MCPClientWrapper(MCPServerConfig(server, "stdio", "x"))
    make: Any = MCPManager()._make_tool_def  # pyright: ignore[reportPrivateUsage]
    made = make(server, client, {"name": name, "description": description, "inputSchema": schema})
    assert made.name == f"mcp_{server.replace('-', '_')}_{name}"
    assert made.description.startswith(f"[MCP:{server}]")
    assert description in made.description
    assert made.input_schema == schema
    assert made.max_result_chars == 5000


def initialised(servers: Iterable[ServerConfig | MCPServerConfig]) -> tuple[Any, Any]:
    manager, registry = MCPManager(servers=servers), ToolRegistry()
    anyio.run(manager.initialize, registry)
    return manager, registry


# Feature: mcp-client-integration, Property 4: a prefix can be taken off again
@pytest.mark.covers("R-EXCEL-45", "R-EXCEL-57")
@thorough
@given(
    st.dictionaries(
        st.text("ab-_", min_size=1, max_size=3),
        st.lists(st.text("abc_", min_size=1, max_size=3), min_size=1, max_size=3, unique=True),
        min_size=1,
        max_size=2,
    )
)
def test_property_4_every_name_leads_back_to_its_server_and_tool(
    offered: dict[str, list[str]],
) -> None:
    manager, registry = initialised(
        in_memory(server, [tool(name) for name in names]) for server, names in offered.items()
    )
    everything = [(server, name) for server, names in offered.items() for name in names]
    expected: dict[str, tuple[str, str]] = {}
    for server, name in everything:
        # The rule is not injective: the second tool is left out, never taken for the first.
        expected.setdefault(f"mcp_{server.replace('-', '_')}_{name}", (server, name))
    assert {name: manager.origin(name) for name in registry.get_tool_names()} == expected
    for exposed, (_, name) in expected.items():
        assert registry.call_tool(exposed, {}) == f"{name} {{}}"
    anyio.run(manager.shutdown)


TEXTS = TEXT.map(lambda text: types.TextContent(text=text))
IMAGES = st.just(types.ImageContent(data="aGk=", mime_type="image/png"))
LINKS = TEXT.map(lambda text: types.ResourceLink(uri="file:///a", name=text))
RESOURCES = TEXT.map(
    lambda text: types.EmbeddedResource(
        resource=types.TextResourceContents(uri="file:///a", text=text)
    )
)
shown: list[Any] = []


@pytest.fixture(scope="module")
def showing() -> Any:
    """A client of a server that answers with whatever is to be shown."""
    server = in_memory(
        "m", [tool("show")], answer=lambda *_: types.CallToolResult(content=list(shown))
    )
    client = MCPClientWrapper(server)
    run_in_background(client.connect, tool="")
    yield client
    run_in_background(client.close, tool="")


# Feature: mcp-client-integration, Property 5: no text of a result is lost
@pytest.mark.covers("R-EXCEL-46", "R-EXCEL-57")
@thorough
@given(content=st.lists(TEXTS | IMAGES | LINKS | RESOURCES, max_size=5))
def test_property_5_the_string_holds_every_text(
    showing: MCPClientWrapper, content: list[Any]
) -> None:
    shown[:] = content
    text = run_in_background(lambda: showing.call_tool("show", {}), tool="show")
    for block in content:
        if isinstance(block, types.TextContent):
            assert block.text in text


# Feature: mcp-client-integration, Property 6: a server that fails costs only itself
@pytest.mark.covers("R-EXCEL-47", "R-EXCEL-57", "R-EXCEL-28")
@thorough
@given(st.lists(st.sampled_from(["works", "missing", "refuses"]), max_size=4))
def test_property_6_as_many_servers_are_connected_as_work(fates: list[str]) -> None:
    async def refuse() -> None:
        raise ValueError("no list today")

    servers: dict[str, MCPServerConfig | ServerConfig] = {}
    for number, fate in enumerate(fates):
        name, tools = f"{fate}{number}", [tool("a"), tool(f"b{number}")]
        if fate == "missing":
            servers[name] = MCPServerConfig(name, "stdio", "/no/such/program")
        else:
            before = refuse if fate == "refuses" else None
            servers[name] = in_memory(name, tools, before_listing=before)
    manager, registry = initialised(servers.values())
    working = [name for name in servers if name.startswith("works")]
    assert manager.connected_servers == working
    assert registry.get_tool_names() == [
        f"mcp_{name}_{it}" for name in working for it in ("a", f"b{name.removeprefix('works')}")
    ]
    anyio.run(manager.shutdown)
    assert manager.connected_servers == []


@pytest.mark.covers("R-EXCEL-56", "R-EXCEL-57", "R-EXCEL-59")
def test_the_tests_are_where_and_what_the_document_says() -> None:
    ties = tied_tests()
    for name, numbers in {
        "test_mcp_config.py": range(9, 20),
        "test_mcp_manager.py": range(26, 32),
        "test_pbt_mcp.py": range(42, 48),
    }.items():
        for number in numbers:
            files = {Path(test.partition("::")[0]).name for test in ties[f"R-EXCEL-{number}"]}
            assert name in files, f"R-EXCEL-{number} has no test in {name}"
    source = inspect.getsource(sys.modules[__name__])
    for number in range(1, 7):
        comment = f"\n# Feature: mcp-client-integration, Property {number}: "
        assert source.count(comment) == 1
        decorators, _, rest = source.partition(comment)[2].partition("\ndef ")
        assert "\n@thorough\n@given(" in decorators
        assert rest.startswith(f"test_property_{number}_")
    assert thorough.max_examples >= 100
