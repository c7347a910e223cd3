"""What was read in the code of the real system, and what ours does.

ExcelManus is a public repository, kilolonion/excelmanus, and no package. Each expected outcome was
read in `excelmanus/mcp/` and `excelmanus/tools/registry.py` at the commit below.
"""

import contextlib
import dataclasses
import inspect
import json
import os
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable, Generator, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.oracles.outcomes import caught, logged
from tests.oracles.surface import public, surface
from tests.oracles.table import Table
from tests.upstream.processes import LIGHT

TABLE = Table()
# First cell of a row of the guide → scenarios, or places of the surface (dotted).
DIFFERENCES: dict[str, list[str]] = {
    "`$VAR` in what `MCPConfigLoader.load` returns": [
        "a_variable_of_the_file_is_expanded_when_it_is_loaded",
    ],
    "`repr` of an `MCPServerConfig`": ["the_repr_of_a_server"],
    "The tools of `MCPClientWrapper.discover_tools`": ["a_client_lists_tools"],
    "The result of `MCPClientWrapper.call_tool`": ["a_client_calls_a_tool"],
    "`app_config`, `get_builtin_mcp_configs`": ["get_builtin_mcp_configs"],
    "`npx_cache`, `processes`": [
        *("resolve_npx_config", "snapshot_workspace_mcp_pids"),
        *("terminate_workspace_mcp_processes", "try_resolve_from_cache"),
    ],
    "The catalogue, the validation and the built-in tools of `ToolRegistry`": [
        *("ToolRegistry.bind_catalog", "ToolRegistry.catalog_digest"),
        *("ToolRegistry.configure_schema_validation", "ToolRegistry.effective_catalog"),
        *("ToolRegistry.register_builtin_tools", "ToolRegistry.validate_arguments_by_schema"),
        *("canonical_tool_name", "normalize_tool_aliases"),
    ],
    "`ToolResult` of its engine": [
        "a_call_of_a_local_tool",
        "a_call_without_a_needed_argument",
        "a_call_of_a_tool_that_fails",
        "a_remote_tool_is_called_outside_of_its_engine",
    ],
}
COMMIT = "59f5726b38072b675bd2d438d983a04eeb05e71a"
IGNORED = ("EXCELMANUS_MCP_CONFIG", "EXCELMANUS_MCP_EXPAND_ENV_REFS")


@dataclass
class _ServerConfig:
    name: str
    transport: str
    command: str | None = None
    args: list[str] = field(default_factory=list[str])
    env: dict[str, str] = field(default_factory=dict[str, str])
    url: str | None = None
    headers: dict[str, str] = field(default_factory=dict[str, str])
    state_dir: str | None = None
    timeout: int = 30
    auto_approve: list[str] = field(default_factory=list[str])
    scope: str = "always"


@dataclass
class _ToolDef:
    name: str
    description: str
    input_schema: dict[str, Any]
    func: Callable[..., Any]
    async_func: Callable[..., Any] | None = None
    sensitive_fields: set[str] = field(default_factory=set[str])
    max_result_chars: int = 3000
    truncate_head_chars: int | None = None
    truncate_tail_chars: int = 0
    write_effect: str = "unknown"
    visibility: str = "always"
    consistency: str = "local_commit"
    actions: dict[str, Any] = field(default_factory=dict[str, Any])

    def truncate_result(self, text: Any) -> Any: ...
    def to_openai_schema(self, mode: Any = "responses") -> Any: ...


_ServerConfig.__name__ = "MCPServerConfig"
_ToolDef.__name__ = "ToolDef"


class _Loader:
    @staticmethod
    def load(
        config_path: Any = None,
        workspace_root: Any = ".",
        *,
        expand_env_refs: Any = None,
        strict_secret_check: Any = None,
        undefined_env: Any = None,
    ) -> Any: ...


class _Client:
    def __init__(self, config: Any) -> None: ...
    async def connect(self) -> Any: ...
    async def discover_tools(
        self, *, cache_ttl_seconds: Any = 30.0, force_refresh: Any = False
    ) -> Any: ...
    async def call_tool(self, tool_name: Any, arguments: Any) -> Any: ...
    async def close(self) -> Any: ...
    def bind_managed_pids(self, pids: Any) -> Any: ...

    is_connected = managed_pids = property()


class _Manager:
    def __init__(self, workspace_root: Any = ".", *, app_config: Any = None) -> None: ...
    async def initialize(self, registry: Any) -> Any: ...
    async def shutdown(self) -> Any: ...
    def get_server_info(self) -> Any: ...

    connected_servers = is_initialized = auto_approved_tools = tool_scopes = property()


class _Registry:
    def __init__(self) -> None: ...
    def fork(self) -> Any: ...
    def bind_catalog(self, *, mode: Any = "write", allowed: Any = None) -> Any: ...
    def effective_catalog(self) -> Any: ...
    def catalog_digest(self) -> Any: ...
    def restrict(self, *, allowed: Any = None, disallowed: Any = ()) -> Any: ...
    def remove_tools(self, names: Any) -> Any: ...
    def configure_schema_validation(
        self, *, mode: Any, canary_percent: Any, strict_path: Any
    ) -> Any: ...
    def validate_arguments_by_schema(
        self, *, tool_name: Any, arguments: Any, schema: Any
    ) -> Any: ...
    def register_tool(self, tool: Any) -> Any: ...
    def register_tools(self, tools: Any) -> Any: ...
    def get_tool(self, tool_name: Any) -> Any: ...
    def get_all_tools(self) -> Any: ...
    def get_tool_names(self) -> Any: ...
    def get_openai_schemas(self, mode: Any = "responses", tool_scope: Any = None) -> Any: ...
    def get_tiered_schemas(self, mode: Any = "responses") -> Any: ...
    def call_tool(self, tool_name: Any, arguments: Any, tool_scope: Any = None) -> Any: ...
    async def call_tool_async(
        self, tool_name: Any, arguments: Any, tool_scope: Any = None
    ) -> Any: ...
    @staticmethod
    def is_error_result(result: Any) -> Any: ...
    def register_builtin_tools(self, workspace_root: Any) -> Any: ...


def _one(name: Any) -> Any: ...
def _prefix(server_name: Any, tool_name: Any) -> Any: ...
def _result(mcp_result: Any) -> Any: ...
def _parse(prefixed_name: Any) -> Any: ...
def _effect(
    *,
    original_name: Any,
    description: Any = "",
    input_schema: Any = None,
    auto_approved: Any = False,
    scope: Any = "",
) -> Any: ...
def _make(
    server_name: Any,
    client: Any,
    mcp_tool: Any,
    workspace_root: Any = ".",
    *,
    auto_approved: Any = False,
    scope: Any = "",
) -> Any: ...


SURFACE: dict[str, Any] = surface(
    SimpleNamespace(
        MCPClientWrapper=_Client,
        MCPConfigLoader=_Loader,
        MCPManager=_Manager,
        MCPServerConfig=_ServerConfig,
        OpenAISchemaMode="a type",
        ToolConsistency="a type",
        ToolDef=_ToolDef,
        ToolExecutionError=Exception,
        ToolNotAllowedError=Exception,
        ToolNotFoundError=Exception,
        ToolRegistry=_Registry,
        ToolRegistryError=Exception,
        ToolVisibility="a type",
        WriteEffect="a type",
        add_tool_prefix=_prefix,
        canonical_tool_name=_one,
        format_tool_result=_result,
        get_builtin_mcp_configs=_one,
        infer_mcp_write_effect=_effect,
        make_tool_def=_make,
        normalize_tool_aliases=_one,
        parse_tool_prefix=_parse,
        resolve_npx_config=_one,
        snapshot_workspace_mcp_pids=_one,
        terminate_workspace_mcp_processes=_one,
        try_resolve_from_cache=_one,
    )
)


def names(side: str) -> Any:
    """Return the public names of a side; only ours can be imported."""
    for variable in IGNORED:
        os.environ.pop(variable, None)
    return public("pegboard.compat.excelmanus") if side == "ours" else SimpleNamespace()


STDIO: dict[str, Any] = {"transport": "stdio", "command": "x"}
SSE: dict[str, Any] = {"transport": "sse", "url": "http://h/sse"}
HTTP: dict[str, Any] = {"transport": "streamable_http", "url": "http://h/mcp"}
OBJECT: dict[str, Any] = {"type": "object", "properties": {}}


@contextlib.contextmanager
def workspace(content: object) -> Generator[str]:
    """A folder with an `mcp.json`: a text as it is, else servers by name."""
    with tempfile.TemporaryDirectory() as folder:
        text = content if isinstance(content, str) else json.dumps({"mcpServers": content})
        Path(folder, "mcp.json").write_text(text, "utf-8")
        yield folder


@contextlib.contextmanager
def variables(**given: str) -> Generator[None]:
    kept = dict(os.environ)
    os.environ.update(given)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(kept)


def loaded(its: Any, content: object, **options: Any) -> Any:
    """Return the servers of a file, and the levels of what was logged that a user would see."""
    with workspace(content) as folder, logged() as levels:
        servers = its.MCPConfigLoader.load(workspace_root=folder, **options)
    return servers, [it for it in levels if it in ("WARNING", "ERROR")]


def fields_of(its: Any, entry: dict[str, Any], *wanted: str) -> Any:
    servers, _ = loaded(its, {"a": entry})
    return [[getattr(server, it) for it in wanted] for server in servers]


def config(name: str = "a", **fields: Any) -> _ServerConfig:
    given: dict[str, Any] = {"transport": "stdio", "command": "x", **fields}
    return _ServerConfig(name, **given)


def tool(its: Any, name: str = "t", **fields: Any) -> Any:
    given = {"description": "", "input_schema": OBJECT, "func": lambda: None, **fields}
    return its.ToolDef(name, **given)


def holding(its: Any, *given: str) -> Any:
    registry = its.ToolRegistry()
    registry.register_tools([tool(its, name) for name in given])
    return registry


@contextlib.asynccontextmanager
async def initialized(its: Any, servers: Any, registry: Any = None) -> AsyncGenerator[Any]:
    with workspace(servers) as folder:
        manager = its.MCPManager(folder)
        await manager.initialize(its.ToolRegistry() if registry is None else registry)
        try:
            yield manager
        finally:
            await manager.shutdown()


def light(**fields: Any) -> dict[str, Any]:
    return {"transport": "stdio", "command": sys.executable, "args": [LIGHT], **fields}


def stub_client(timeout: int = 5) -> Any:
    return SimpleNamespace(_config=SimpleNamespace(timeout=timeout), call_tool=None)


def sdk_tool(name: str = "read_file", description: str | None = "Read.", **fields: Any) -> Any:
    given = {"inputSchema": OBJECT, **fields}
    return SimpleNamespace(name=name, description=description, **given)


def sdk_result(*content: Any, structured: Any = None) -> Any:
    return SimpleNamespace(content=list(content), structuredContent=structured)


def block(kind: str, **fields: Any) -> Any:
    return SimpleNamespace(type=kind, **fields)


# The configuration of a server


@TABLE.expects(_ServerConfig("a", "stdio"))
def a_server_with_two_fields(its: Any) -> Any:
    return its.MCPServerConfig("a", "stdio")


@TABLE.expects(
    _ServerConfig("a", "sse", None, ["b"], {"c": "d"}, "u", {"h": "v"}, "s", 5, ["t"], "search")
)
def a_server_by_position(its: Any) -> Any:
    return its.MCPServerConfig(
        "a", "sse", None, ["b"], {"c": "d"}, "u", {"h": "v"}, "s", 5, ["t"], "search"
    )


@TABLE.expects(_ServerConfig("a", "streamable_http", url="u", headers={"h": "v"}))
def a_server_by_keyword(its: Any) -> Any:
    return its.MCPServerConfig(name="a", transport="streamable_http", url="u", headers={"h": "v"})


@TABLE.expects([True, False, True])
def equal_servers_are_equal(its: Any) -> Any:
    made = its.MCPServerConfig("a", "stdio")
    return [
        made == its.MCPServerConfig("a", "stdio"),
        made == its.MCPServerConfig("a", "stdio", timeout=31),
        made == dataclasses.replace(made),
    ]


@TABLE.expects([[], {}, ["x"], {"A": "b"}])
def servers_do_not_share_lists(its: Any) -> Any:
    first, second = its.MCPServerConfig("a", "stdio"), its.MCPServerConfig("b", "stdio")
    first.args.append("x")
    first.env["A"] = "b"
    return [second.args, second.env, first.args, first.env]


@TABLE.expects(
    "MCPServerConfig(name='a', transport='stdio', command='x', args=[], env={}, url=None, "
    "headers={}, state_dir=None, timeout=30, auto_approve=[], scope='always')"
)
def the_repr_of_a_server(its: Any) -> Any:
    return repr(its.MCPServerConfig("a", "stdio", "x"))


# The file


@TABLE.expects(([config(args=["-y"], env={"A": "b"}, timeout=60)], []))
def a_file_with_a_process(its: Any) -> Any:
    return loaded(its, {"a": {**STDIO, "args": ["-y"], "env": {"A": "b"}, "timeout": 60}})


@TABLE.expects(
    ([config(transport="sse", command=None, url="http://h/sse", headers={"A": "b"})], [])
)
def a_file_with_an_sse_server(its: Any) -> Any:
    return loaded(its, {"a": {**SSE, "headers": {"A": "b"}}})


@TABLE.expects(
    (
        [
            config(
                transport="streamable_http",
                command=None,
                url="http://h/mcp",
                headers={"A": "b"},
            )
        ],
        [],
    )
)
def a_file_with_a_streamable_server(its: Any) -> Any:
    return loaded(its, {"a": {**HTTP, "headers": {"A": "b"}}})


@TABLE.expects(["b", "a", "c"])
def servers_come_in_the_order_of_the_file(its: Any) -> Any:
    servers, _ = loaded(its, {"b": STDIO, "a": SSE, "c": HTTP})
    return [it.name for it in servers]


@TABLE.expects(([config(args=[], env={})], []))
def nulls_are_as_if_they_were_not_there(its: Any) -> Any:
    return loaded(its, {"a": {**STDIO, "args": None, "env": None, "url": None, "headers": None}})


@TABLE.expects(([config()], []))
def fields_that_are_not_known_are_ignored(its: Any) -> Any:
    return loaded(its, {"a": {**STDIO, "note": "whatever", "disabled": True}})


@TABLE.expects(([config()], []))
def fields_of_another_transport_are_not_looked_at(its: Any) -> Any:
    return loaded(its, {"a": {**STDIO, "url": 7, "headers": [1]}})


@TABLE.expects([[1], [60], [1], [2]])
def a_timeout_is_made_a_whole_number(its: Any) -> Any:
    return [
        fields_of(its, {**STDIO, "timeout": seconds}, "timeout")[0]
        for seconds in (1.9, 60.0, True, 2)
    ]


@TABLE.expects([["/s", ["a", "*"], "dev_docs"]])
def fields_for_the_host(its: Any) -> Any:
    entry = {**STDIO, "stateDir": " /s ", "autoApprove": ["a", "*"], "scope": " Dev_Docs "}
    return fields_of(its, entry, "state_dir", "auto_approve", "scope")


@TABLE.expects([["/s"]])
def a_state_folder_by_its_other_name(its: Any) -> Any:
    return fields_of(its, {**STDIO, "state_dir": "/s"}, "state_dir")


@TABLE.expects(([config()], ["WARNING", "WARNING"]))
def a_field_for_the_host_that_is_wrong_costs_only_itself(its: Any) -> Any:
    return loaded(its, {"a": {**STDIO, "autoApprove": "*", "scope": ["search"]}})


@TABLE.expects(([], []))
def a_file_without_servers(its: Any) -> Any:
    return loaded(its, {})


@TABLE.expects([([], ["ERROR"]), ([], ["ERROR"]), ([], ["ERROR"])])
def a_file_that_is_not_json(its: Any) -> Any:
    return [loaded(its, text) for text in ("{invalid", "", "[1, 2, 3]")]


@TABLE.expects([([], ["WARNING"]), ([], ["WARNING"]), ([], ["WARNING"])])
def a_file_without_an_object_of_servers(its: Any) -> Any:
    return [loaded(its, it) for it in ("{}", '{"mcpServers": []}', '{"mcpServers": "x"}')]


@TABLE.expects(([], []))
def no_file_at_all(its: Any) -> Any:
    with (
        tempfile.TemporaryDirectory() as folder,
        variables(HOME=folder, USERPROFILE=folder),
        logged() as levels,
    ):
        servers = its.MCPConfigLoader.load("missing.json", folder)
    return servers, [it for it in levels if it in ("WARNING", "ERROR")]


def _file(path: Path, server: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"mcpServers": {server: STDIO}}), "utf-8")
    return str(path)


@TABLE.expects(["home", "workspace", "given"])
def the_first_file_that_exists(its: Any) -> Any:
    found: list[str] = []
    with tempfile.TemporaryDirectory() as folder, variables(HOME=folder, USERPROFILE=folder):
        root = Path(folder)
        given = str(root / "given.json")
        for path in (root / ".excelmanus/mcp.json", root / "w/mcp.json", Path(given)):
            server = {".excelmanus": "home", "w": "workspace"}.get(path.parent.name, "given")
            _file(path, server)
            found.append(its.MCPConfigLoader.load(given, str(root / "w"))[0].name)
    return found


WRONG: dict[str, Any] = {
    "no_transport": {"command": "x"},
    "an_unknown_transport": {**STDIO, "transport": "pigeon"},
    "a_transport_that_is_no_text": {**STDIO, "transport": 7},
    "no_command": {"transport": "stdio"},
    "a_blank_command": {**STDIO, "command": "  "},
    "a_command_that_is_no_text": {**STDIO, "command": ["x"]},
    "no_url": {"transport": "sse"},
    "a_blank_url": {**HTTP, "url": " "},
    "arguments_that_are_no_list": {**STDIO, "args": "-y"},
    "arguments_that_are_no_texts": {**STDIO, "args": [1]},
    "an_environment_of_numbers": {**STDIO, "env": {"A": 1}},
    "headers_of_numbers": {**SSE, "headers": {"A": 1}},
    "headers_that_are_a_list": {**HTTP, "headers": []},
    "a_timeout_of_nothing": {**STDIO, "timeout": 0},
    "a_timeout_of_half_a_second": {**STDIO, "timeout": 0.5},
    "a_timeout_that_is_a_text": {**STDIO, "timeout": "30"},
    "a_timeout_of_null": {**STDIO, "timeout": None},
    "a_state_folder_that_is_no_text": {**STDIO, "stateDir": 7},
    "an_entry_that_is_no_object": "npx",
    "an_entry_of_null": None,
}


@TABLE.expects({name: [["good"], ["WARNING"]] for name in WRONG})
def an_entry_that_is_wrong_costs_a_warning_and_itself(its: Any) -> Any:
    found: dict[str, Any] = {}
    for name, entry in WRONG.items():
        servers, levels = loaded(its, {"bad": entry, "good": STDIO})
        found[name] = [[it.name for it in servers], levels]
    return found


@TABLE.expects([["good"], ["WARNING"]])
def a_server_without_a_name(its: Any) -> Any:
    servers, levels = loaded(its, {" ": STDIO, "good": STDIO})
    return [[it.name for it in servers], levels]


@TABLE.expects(([], ["WARNING"]))
def streamable_http_can_be_turned_off(its: Any) -> Any:
    with variables(EXCELMANUS_MCP_ENABLE_STREAMABLE_HTTP="off"):
        return loaded(its, {"a": HTTP})


# Variables and secrets


@TABLE.expects([["--t=gold", {"A": "gold"}, "gold"]])
def a_variable_of_the_file_is_expanded_when_it_is_loaded(its: Any) -> Any:
    entry = {"transport": "stdio", "command": "$PB_V", "args": ["--t=${PB_V}"]}
    with variables(PB_V="gold"):
        servers, _ = loaded(its, {"a": {**entry, "env": {"A": "$PB_V"}}})
    return [[*it.args, it.env, it.command] for it in servers]


@TABLE.expects([["--t=gold", {"A": "goldgold-"}]])
def a_variable_is_expanded_if_that_is_asked_for(its: Any) -> Any:
    entry = {**STDIO, "args": ["--t=${PB_V}"], "env": {"A": "$PB_V${PB_V}-"}}
    with variables(PB_V="gold"):
        servers, _ = loaded(its, {"a": entry}, expand_env_refs=True)
    return [[*it.args, it.env] for it in servers]


@TABLE.expects([["http://gold/sse", {"A": "Bearer gold"}]])
def a_variable_of_an_address_and_of_its_headers(its: Any) -> Any:
    entry = {"transport": "sse", "url": "http://$PB_V/sse", "headers": {"A": "Bearer $PB_V"}}
    with variables(PB_V="gold"):
        servers, _ = loaded(its, {"a": entry}, expand_env_refs=True)
    return [[it.url, it.headers] for it in servers]


@TABLE.expects([["$PB_V"]])
def a_variable_is_left_alone_if_that_is_asked_for(its: Any) -> Any:
    with variables(PB_V="gold"):
        servers, _ = loaded(its, {"a": {**STDIO, "args": ["$PB_V"]}}, expand_env_refs=False)
    return [it.args for it in servers]


@TABLE.expects({"keep": [["-$PB_NONE-"]], "empty": [["--"]], "error": []})
def a_variable_that_is_not_defined(its: Any) -> Any:
    entry = {**STDIO, "args": ["-$PB_NONE-"]}
    return {
        policy: [
            it.args
            for it in loaded(its, {"a": entry}, expand_env_refs=True, undefined_env=policy)[0]
        ]
        for policy in ("keep", "empty", "error")
    }


@TABLE.expects([["-$PB_NONE-"]])
def a_variable_that_is_not_defined_stays_by_default(its: Any) -> Any:
    return [it.args for it in loaded(its, {"a": {**STDIO, "args": ["-$PB_NONE-"]}})[0]]


@TABLE.expects(([], ["WARNING"]))
def an_undefined_variable_can_cost_its_server(its: Any) -> Any:
    return loaded(its, {"a": {**STDIO, "args": ["$PB_NONE"]}}, undefined_env="error")


@TABLE.expects([["$", "$1", "a$", "${", "${}", "$$"]])
def a_dollar_that_is_no_variable(its: Any) -> Any:
    entry = {**STDIO, "args": ["$", "$1", "a$", "${", "${}", "$$"]}
    return [it.args for it in loaded(its, {"a": entry}, expand_env_refs=True)[0]]


async def environment_of(its: Any, server: Any) -> Any:
    client = its.MCPClientWrapper(server)
    await client.connect()
    try:
        return its.format_tool_result(await client.call_tool("env", {"name": "IT"}))
    finally:
        await client.close()


@TABLE.expects("gold from the file")
async def a_process_gets_the_value_of_a_variable(its: Any) -> Any:
    with variables(PB_V="gold"):
        (server,), _ = loaded(its, {"a": light(env={"IT": "$PB_V from the file"})})
        return await environment_of(its, dataclasses.replace(server, timeout=20))


@TABLE.expects("$PB_V")
async def a_process_gets_what_a_program_wrote(its: Any) -> Any:
    made = its.MCPServerConfig("a", "stdio", sys.executable, [LIGHT], {"IT": "$PB_V"})
    with variables(PB_V="gold"):
        return await environment_of(its, made)


SECRETS: dict[str, tuple[dict[str, Any], int]] = {
    "an_environment": ({"env": {"GITHUB_TOKEN": "plain"}}, 1),
    "two_of_them": ({"env": {"A_SECRET": "plain", "DB_PASSWORD": "plain"}}, 2),
    "a_flag_with_its_value": ({"args": ["--api-key=plain"]}, 1),
    "a_flag_before_its_value": ({"args": ["--token", "plain"]}, 1),
    "a_flag_before_a_flag": ({"args": ["--token", "--verbose"]}, 0),
    "a_flag_at_the_end": ({"args": ["--token"]}, 0),
    "a_flag_with_nothing": ({"args": ["--token="]}, 0),
    "a_short_flag": ({"args": ["-token", "plain"]}, 0),
    "a_field_of_its_own": ({"api-key": "plain"}, 1),
    "a_field_deeper_down": ({"more": [{"access_key": "plain"}]}, 1),
    "a_variable": ({"env": {"GITHUB_TOKEN": "$TOKEN"}}, 0),
    "a_variable_in_braces": ({"args": ["--token", "${TOKEN}"]}, 0),
    "a_variable_and_more": ({"env": {"GITHUB_TOKEN": "x$TOKEN"}}, 1),
    "nothing": ({"env": {"GITHUB_TOKEN": " "}}, 0),
    "a_number": ({"token": 7}, 0),
    "another_name": ({"env": {"AUTHORIZATION": "plain"}}, 0),
}


@TABLE.expects({name: [1, ["WARNING"] * count] for name, (_, count) in SECRETS.items()})
def a_secret_in_the_file_costs_a_warning(its: Any) -> Any:
    found: dict[str, Any] = {}
    for name, (entry, _) in SECRETS.items():
        servers, levels = loaded(its, {"a": {**STDIO, **entry}})
        found[name] = [len(servers), levels]
    return found


@TABLE.expects(([], ["WARNING", "ERROR"]))
def a_secret_in_the_file_can_cost_its_server(its: Any) -> Any:
    return loaded(its, {"a": {**STDIO, "args": ["--api-key=plain"]}}, strict_secret_check=True)


# Names, results and effects


@TABLE.expects(["mcp_filesystem_read_file", "mcp_web_search_search", "mcp_a_b_c_d-e"])
def the_name_of_a_remote_tool(its: Any) -> Any:
    pairs = [("filesystem", "read_file"), ("web-search", "search"), ("a-b_c", "d-e")]
    return [its.add_tool_prefix(server, name) for server, name in pairs]


@TABLE.expects([("web_search", "search"), ("db_server", "get_user_by_id")])
def a_name_leads_back(its: Any) -> Any:
    pairs = [("web-search", "search"), ("db-server", "get_user_by_id")]
    return [its.parse_tool_prefix(its.add_tool_prefix(*pair)) for pair in pairs]


@TABLE.expects([("other", "one"), ("srv", "get_all_items"), ("srv", "")])
def a_name_that_was_not_made_here_is_split(its: Any) -> Any:
    found = ["mcp_other_one", "mcp_srv_get_all_items", "mcp_srv_"]
    return [its.parse_tool_prefix(name) for name in found]


@TABLE.expects([{"raises": ["ValueError"]}] * 4)
def a_name_that_is_none_of_a_remote_tool(its: Any) -> Any:
    found = ["some_random_name", "mcp_serveronly", "mcp_", "mcp__tool"]
    return [caught(its.parse_tool_prefix, name) for name in found]


RESULTS: dict[str, tuple[Any, str]] = {
    "texts": (sdk_result(block("text", text="a"), block("text", text="b")), "a\nb"),
    "an_empty_text": (sdk_result(block("text", text=""), block("text", text="b")), "b"),
    "a_text_and_more": (
        sdk_result(block("text", text="a"), block("image"), structured={"n": 1}),
        "a",
    ),
    "structured_content": (
        sdk_result(structured={"z": 1, "a": ["ü"]}),
        '{\n  "a": [\n    "ü"\n  ],\n  "z": 1\n}',
    ),
    "structured_before_blocks": (sdk_result(block("image"), structured=[]), "[]"),
    "an_image": (sdk_result(block("image"), block("audio")), "[image content]\n[audio content]"),
    "a_resource": (
        sdk_result(block("resource", resource=block("", uri="file:///a", mimeType="text/plain"))),
        "[resource uri=file:///a mime=text/plain]",
    ),
    "a_resource_with_a_text": (
        sdk_result(block("resource", resource=block("", uri="file:///a", text=" hi "))),
        "hi",
    ),
    "a_resource_without_anything": (sdk_result(block("resource")), "[resource]"),
    "nothing": (sdk_result(), ""),
    "no_result_at_all": (SimpleNamespace(), ""),
}


@TABLE.expects({name: text for name, (_, text) in RESULTS.items()})
def the_text_of_a_result(its: Any) -> Any:
    return {name: its.format_tool_result(result) for name, (result, _) in RESULTS.items()}


EFFECTS: dict[str, tuple[dict[str, Any], str]] = {
    "write_sheet": ({}, "workspace_write"),
    "writeSheet": ({}, "workspace_write"),
    "delete-rows": ({}, "workspace_write"),
    "send_email": ({}, "external_write"),
    "post_webhook": ({"scope": "search"}, "external_write"),
    "rewrite": ({}, "unknown"),
    "do_stuff": ({}, "unknown"),
    "get": ({"description": "Overwrites nothing. Can update a row."}, "workspace_write"),
    "fetch": ({"description": "删除一行"}, "workspace_write"),
    "list": ({"input_schema": {"properties": {"save": {}}}}, "workspace_write"),
    "query_docs": ({"auto_approved": True}, "unknown"),
    "find": ({"scope": "search"}, "none"),
    "look": ({"scope": " READ_ONLY "}, "none"),
    "see": ({"scope": "always"}, "unknown"),
    "odd": ({"input_schema": {"properties": ["save"]}}, "unknown"),
}


@TABLE.expects({name: effect for name, (_, effect) in EFFECTS.items()})
def the_effect_of_a_tool(its: Any) -> Any:
    guess = its.infer_mcp_write_effect
    return {name: guess(original_name=name, **more) for name, (more, _) in EFFECTS.items()}


@TABLE.expects(
    {
        "name": "mcp_web_search_read_file",
        "description": "[MCP:web-search] Read.",
        "input_schema": OBJECT,
        "sensitive_fields": set[str](),
        "max_result_chars": 5000,
        "truncate_head_chars": None,
        "truncate_tail_chars": 0,
        "write_effect": "unknown",
        "visibility": "always",
        "consistency": "external_unverified",
    }
)
def a_definition_of_a_server_for_the_host(its: Any) -> Any:
    made = its.make_tool_def("web-search", stub_client(), sdk_tool())
    plain = {it.name for it in dataclasses.fields(made)} - {"func", "async_func", "actions"}
    return {name: getattr(made, name) for name in plain}


@TABLE.expects([True, True, False])
def its_two_functions(its: Any) -> Any:
    made = its.make_tool_def("a", stub_client(), sdk_tool())
    waits = inspect.iscoroutinefunction
    return [callable(made.func), waits(made.async_func), waits(made.func)]


@TABLE.expects(["[MCP:a] ", {}, {"type": "object", "required": ["x"]}])
def a_definition_with_little_in_it(its: Any) -> Any:
    newer = SimpleNamespace(
        name="n", description="", input_schema={"type": "object", "required": ["x"]}
    )
    return [
        its.make_tool_def("a", stub_client(), sdk_tool(description=None)).description,
        its.make_tool_def("a", stub_client(), sdk_tool(inputSchema=None)).input_schema,
        its.make_tool_def("a", stub_client(), newer).input_schema,
    ]


@TABLE.expects(["workspace_write", "none", ("a", "read_file")])
def a_definition_tells_its_effect_and_leads_back(its: Any) -> Any:
    writing = its.make_tool_def("a", stub_client(), sdk_tool("write_sheet"), "/w")
    reading = its.make_tool_def("a", stub_client(), sdk_tool(), auto_approved=True, scope="search")
    return [writing.write_effect, reading.write_effect, its.parse_tool_prefix(reading.name)]


# A tool of the host


@TABLE.expects(_ToolDef("n", "d", {}, len))
def a_tool_with_four_fields(its: Any) -> Any:
    return its.ToolDef("n", "d", {}, len)


@TABLE.expects(
    _ToolDef(*("n", "d", {}, len, len, {"pin"}, 9, 5, 3, "none", "hide_in_read", "none", {"a": 1}))
)
def a_tool_by_position(its: Any) -> Any:
    return its.ToolDef(
        *("n", "d", {}, len, len, {"pin"}, 9, 5, 3, "none", "hide_in_read", "none", {"a": 1})
    )


@TABLE.expects([True, False])
def equal_tools_are_equal(its: Any) -> Any:
    made = its.ToolDef("n", "d", {}, len)
    return [made == its.ToolDef("n", "d", {}, len), made == its.ToolDef("m", "d", {}, len)]


@TABLE.expects(
    {"type": "function", "name": "n", "description": "d", "parameters": {"type": "object"}}
)
def a_tool_for_the_responses_api(its: Any) -> Any:
    return its.ToolDef("n", "d", {"type": "object"}, len).to_openai_schema()


@TABLE.expects(
    {"type": "function", "function": {"name": "a b", "description": "", "parameters": {}}}
)
def a_tool_for_the_chat_api(its: Any) -> Any:
    return its.ToolDef("a b", "", {}, len).to_openai_schema("chat_completions")


@TABLE.expects({"raises": ["ValueError"]})
def a_tool_for_an_api_that_is_none(its: Any) -> Any:
    return its.ToolDef("n", "d", {}, len).to_openai_schema(mode="pigeon")


@TABLE.expects(["a" * 50, "a" * 5000, "a" * 5000])
def a_text_that_fits_is_not_cut(its: Any) -> Any:
    given = [(50, 50), (0, 5000), (-1, 5000)]
    return [
        tool(its, max_result_chars=limit).truncate_result("a" * length) for limit, length in given
    ]


@TABLE.expects("x" * 50 + "\n[结果已截断\uff0c原始长度: 200 字符]")
def a_text_that_is_too_long(its: Any) -> Any:
    return tool(its, max_result_chars=50).truncate_result("x" * 200)


MIDDLE = "[结果中间已截断\uff0c保留前 {} 字符和后 {} 字符\uff0c原始长度: {} 字符]"


@TABLE.expects("HHHH\n" + MIDDLE.format(4, 2, 20) + "\nTT")
def a_text_whose_end_is_kept(its: Any) -> Any:
    made = tool(its, max_result_chars=9, truncate_head_chars=4, truncate_tail_chars=2)
    return made.truncate_result("H" * 10 + "T" * 10)


@TABLE.expects(["HHHHHHH\n" + MIDDLE.format(7, 2, 20) + "\nTT"] * 2)
def a_text_whose_end_is_kept_and_as_much_as_fits_before_it(its: Any) -> Any:
    return [
        tool(
            its, max_result_chars=9, truncate_head_chars=head, truncate_tail_chars=2
        ).truncate_result("H" * 10 + "T" * 10)
        for head in (None, 0)
    ]


@TABLE.expects("H" * 9 + "\n[结果已截断\uff0c原始长度: 10 字符]")
def a_text_of_which_nothing_would_be_left_out(its: Any) -> Any:
    made = tool(its, max_result_chars=9, truncate_head_chars=9, truncate_tail_chars=9)
    return made.truncate_result("H" * 10)


@TABLE.expects([True, {"source": "demo"}, True, True])
def an_object_with_a_long_list_stays_an_object(its: Any) -> Any:
    data = {"meta": {"source": "demo"}, "data": [{"value": "x" * 40}] * 20, "few": [1]}
    shown = tool(its, max_result_chars=240).truncate_result(json.dumps(data))
    found = json.loads(shown)
    note = "完整数据有 20 行\uff0c仅展示前"
    return [len(shown) <= 240, found["meta"], found["_data_truncated"], note in found["_data_note"]]


@TABLE.expects([True, "ok", True])
def an_object_with_a_large_object_stays_an_object(its: Any) -> Any:
    data = {"status": "ok", "styles": {f"A{number}": "bold" for number in range(90)}}
    shown = tool(its, max_result_chars=300).truncate_result(json.dumps(data))
    found = json.loads(shown)
    return [len(shown) <= 300, found["status"], found["styles"]["__truncated__"].endswith("/90 项")]


@TABLE.expects([True, True, True])
def an_object_with_a_long_text_keeps_its_end(its: Any) -> Any:
    data = {"code": 0, "stdout": "a" * 500 + "the end"}
    shown = tool(its, max_result_chars=400).truncate_result(json.dumps(data))
    found = json.loads(shown)
    return [len(shown) <= 400, found["stdout"].endswith("the end"), "_stdout_note" in found]


@TABLE.expects('{"n": "' + "x" * 3 + "\n[结果已截断\uff0c原始长度: 99 字符]")
def an_object_with_nothing_to_shorten_is_cut(its: Any) -> Any:
    return tool(its, max_result_chars=10).truncate_result('{"n": "' + "x" * 90 + '"}')


# A registry


@TABLE.expects([["b", "a"], "b", None])
def a_registry_by_name(its: Any) -> Any:
    registry = holding(its, "b", "a")
    return [registry.get_tool_names(), registry.get_tool("b").name, registry.get_tool("c")]


@TABLE.expects(["b", "a"])
def all_tools_of_a_registry(its: Any) -> Any:
    return [it.name for it in holding(its, "b", "a").get_all_tools()]


@TABLE.expects([{"raises": ["ToolRegistryError"]}, ["a"]])
def a_name_that_is_taken(its: Any) -> Any:
    registry = holding(its, "a")
    return [caught(registry.register_tool, tool(its, "a")), registry.get_tool_names()]


@TABLE.expects([{"raises": ["ToolRegistryError"]}, {"raises": ["ToolRegistryError"]}, ["a"]])
def all_tools_of_a_batch_or_none(its: Any) -> Any:
    registry = holding(its, "a")
    return [
        caught(registry.register_tools, [tool(its, "b"), tool(its, "a")]),
        caught(registry.register_tools, [tool(its, "c"), tool(its, "c")]),
        registry.get_tool_names(),
    ]


@TABLE.expects(["a", "b"])
def definitions_come_in_the_order_of_names(its: Any) -> Any:
    return [it["name"] for it in holding(its, "b", "a").get_openai_schemas()]


@TABLE.expects(
    [
        {
            "type": "function",
            "function": {"name": "b", "description": "", "parameters": OBJECT},
        }
    ]
)
def definitions_of_a_scope(its: Any) -> Any:
    return holding(its, "b", "a").get_openai_schemas("chat_completions", ["b", "gone"])


@TABLE.expects([[], {"raises": ["ValueError"]}])
def definitions_of_no_scope_and_for_no_api(its: Any) -> Any:
    registry = holding(its, "a")
    return [registry.get_openai_schemas(tool_scope=[]), caught(registry.get_openai_schemas, "fax")]


@TABLE.expects([["a"], ["a", "b"], ["a", "c"]])
def a_fork_goes_its_own_way(its: Any) -> Any:
    registry = holding(its, "a")
    first, second = registry.fork(), registry.fork()
    first.register_tool(tool(its, "b"))
    second.register_tool(tool(its, "c"))
    return [it.get_tool_names() for it in (registry, first, second)]


@TABLE.expects([2, ["c"], 0])
def tools_are_removed(its: Any) -> Any:
    registry = holding(its, "a", "b", "c")
    return [
        registry.remove_tools(["a", "b", "z"]),
        registry.get_tool_names(),
        registry.remove_tools([]),
    ]


@TABLE.expects([["b", "c"], ["b"], []])
def a_registry_is_restricted(its: Any) -> Any:
    registry, found = holding(its, "a", "b", "c"), []
    for given in ({"disallowed": ["a"]}, {"allowed": ["a", "b"]}, {"allowed": []}):
        registry.restrict(**given)
        found.append(registry.get_tool_names())
    return found


@TABLE.expects([{"raises": ["ToolNotFoundError"]}, {"raises": ["ToolNotAllowedError"]}])
def a_call_of_what_is_not_there_or_not_allowed(its: Any) -> Any:
    registry = holding(its, "a")
    return [caught(registry.call_tool, "b", {}), caught(registry.call_tool, "a", {}, ["b"])]


@TABLE.expects({"object": "ToolResult"})
def a_call_of_a_local_tool(its: Any) -> Any:
    registry = its.ToolRegistry()
    registry.register_tool(tool(its, "double", func=lambda x: 2 * x))
    return registry.call_tool("double", {"x": 4})


@TABLE.expects({"object": "ToolResult"})
def a_call_without_a_needed_argument(its: Any) -> Any:
    registry = its.ToolRegistry()
    registry.register_tool(tool(its, "double", func=lambda x: 2 * x))
    return registry.call_tool("double", {})


@TABLE.expects({"object": "ToolResult"})
def a_call_of_a_tool_that_fails(its: Any) -> Any:
    registry = its.ToolRegistry()
    registry.register_tool(tool(its, "fail", func=lambda: 1 / 0))
    return registry.call_tool("fail", {})


async def awaited(call: Callable[[], Any]) -> Any:
    try:
        return await call()
    except Exception as error:
        return {"raises": [it.__name__ for it in type(error).__mro__[:1]]}


@TABLE.expects([{"raises": ["RuntimeError"]}, {"raises": ["ToolNotFoundError"]}, True])
async def an_asynchronous_call(its: Any) -> Any:
    registry = holding(its, "a")
    return [
        await awaited(lambda: registry.call_tool_async("a", {})),
        await awaited(lambda: registry.call_tool_async("b", {})),
        await awaited(lambda: registry.call_tool_async("a", {}, ["b"]))
        == {"raises": ["ToolNotAllowedError"]},
    ]


@TABLE.expects([True, True, False, False, False, False, False])
def a_text_that_reports_a_failure(its: Any) -> Any:
    texts = [
        '{"status": "error", "x": 1}',
        '{"error": "no"}',
        '{"error": "no", "data": []}',
        '{"status": "ok"}',
        '{"error" nonsense',
        "error",
        7,
    ]
    return [its.ToolRegistry.is_error_result(text) for text in texts]


# A client


@TABLE.expects([False, set[int]()])
def a_new_client(its: Any) -> Any:
    client = its.MCPClientWrapper(its.MCPServerConfig("a", "stdio", "echo"))
    return [client.is_connected, client.managed_pids]


@TABLE.expects([{"raises": ["RuntimeError"]}, {"raises": ["RuntimeError"]}, None, False])
async def a_client_that_is_not_connected(its: Any) -> Any:
    client = its.MCPClientWrapper(its.MCPServerConfig("a", "stdio", "echo"))
    found: list[Any] = []
    for call in (client.discover_tools, lambda: client.call_tool("x", {})):
        try:
            await call()
        except RuntimeError:
            found.append({"raises": ["RuntimeError"]})
    return [*found, await client.close(), client.is_connected]


@TABLE.expects([{100, 200}, {100, 200}])
def the_processes_of_a_client(its: Any) -> Any:
    client = its.MCPClientWrapper(its.MCPServerConfig("a", "stdio", "echo"))
    client.bind_managed_pids({100, -1, 0, 200})
    first = client.managed_pids
    client.managed_pids.add(300)
    return [first, client.managed_pids]


@contextlib.asynccontextmanager
async def connected(its: Any, **fields: Any) -> AsyncGenerator[Any]:
    client = its.MCPClientWrapper(
        its.MCPServerConfig("a", "stdio", sys.executable, [LIGHT], **fields)
    )
    await client.connect()
    try:
        yield client
    finally:
        await client.close()


@TABLE.expects([True, True, False, False])
async def a_client_connects_once_and_closes_twice(its: Any) -> Any:
    async with connected(its) as client:
        await client.connect()
        found = [client.is_connected, True]
        await client.close()
        found.append(client.is_connected)
        await client.close()
    return [*found, client.is_connected]


@TABLE.expects([{"object": "Tool"}] * 2)
async def a_client_lists_tools(its: Any) -> Any:
    async with connected(its) as client:
        found = await client.discover_tools()
        return found[:2]


@TABLE.expects([True, True, True])
async def a_list_of_tools_is_kept_for_a_while(its: Any) -> Any:
    async with connected(its) as client:
        first = await client.discover_tools()
        again = await client.discover_tools(cache_ttl_seconds=60)
        first.clear()
        anew = await client.discover_tools(force_refresh=True, cache_ttl_seconds=0)
        return [len(again) > 0, len(anew) == len(again), len(await client.discover_tools()) > 0]


@TABLE.expects({"object": "CallToolResult"})
async def a_client_calls_a_tool(its: Any) -> Any:
    async with connected(its) as client:
        return await client.call_tool("echo", {"text": "hi"})


@TABLE.expects("hi")
async def the_text_of_what_a_client_got(its: Any) -> Any:
    async with connected(its) as client:
        return its.format_tool_result(await client.call_tool("echo", {"text": "hi"}))


@TABLE.expects({"raises": ["RuntimeError"]})
async def a_tool_that_reports_a_failure(its: Any) -> Any:
    async with connected(its) as client:
        return await client.call_tool("fail", {"message": "too hot"})


@TABLE.expects({"raises": ["TimeoutError"]})
async def a_call_that_takes_too_long(its: Any) -> Any:
    async with connected(its, timeout=1) as client:
        return await client.call_tool("slow", {"seconds": 60})


# A manager


@TABLE.expects([[], False, [], {}, []])
def a_new_manager(its: Any) -> Any:
    made = its.MCPManager()
    return [
        made.connected_servers,
        made.is_initialized,
        made.auto_approved_tools,
        made.tool_scopes,
        made.get_server_info(),
    ]


@TABLE.expects([True, False, []])
async def a_manager_without_servers(its: Any) -> Any:
    async with initialized(its, {}) as manager:
        found = [manager.is_initialized]
    return [*found, manager.is_initialized, manager.connected_servers]


@TABLE.expects([["a"], ["b", "a"], "stdio", "ready", True, None, True])
async def what_a_manager_tells_of_its_servers(its: Any) -> Any:
    servers = {"b": {"transport": "stdio", "command": "no-such-program"}, "a": light()}
    async with initialized(its, servers) as manager:
        first, second = manager.get_server_info()
        return [
            manager.connected_servers,
            [second["name"], first["name"]],
            first["transport"],
            first["status"],
            first["tool_count"] == len(first["tools"]) and "echo" in first["tools"],
            first["last_error"],
            all(isinstance(it["init_ms"], int) for it in (first, second)),
        ]


@TABLE.expects({"name", "transport", "status", "tool_count", "tools", "last_error", "init_ms"})
async def the_keys_of_what_it_tells(its: Any) -> Any:
    async with initialized(its, {"a": light()}) as manager:
        return set(manager.get_server_info()[0])


@TABLE.expects(["connect_failed", 0, [], True, []])
async def a_server_that_cannot_be_started(its: Any) -> Any:
    servers = {"a": {"transport": "stdio", "command": "no-such-program"}}
    async with initialized(its, servers) as manager:
        (info,) = manager.get_server_info()
        told = bool(info["last_error"])
        return [info["status"], info["tool_count"], info["tools"], told, manager.connected_servers]


@TABLE.expects([[], [], False])
async def a_manager_that_was_shut_down(its: Any) -> Any:
    async with initialized(its, {"a": light()}) as manager:
        pass
    await manager.shutdown()
    return [manager.connected_servers, manager.get_server_info(), manager.is_initialized]


@TABLE.expects([True, True, "a"])
async def a_manager_is_initialized_twice(its: Any) -> Any:
    registry = its.ToolRegistry()
    async with initialized(its, {"a": light()}, registry) as manager:
        before = registry.get_all_tools()
        await manager.initialize(registry)
        same = all(
            one is other for one, other in zip(before, registry.get_all_tools(), strict=True)
        )
        return [len(before) > 0, same, manager.connected_servers[0]]


@TABLE.expects([["mcp_a_b_echo"], "search", "none"])
async def tools_that_need_no_question_and_their_scope(its: Any) -> Any:
    registry = its.ToolRegistry()
    entry = light(autoApprove=["echo", "gone"], scope="search")
    async with initialized(its, {"a-b": entry}, registry) as manager:
        approved, scopes = manager.auto_approved_tools, manager.tool_scopes
        return [approved, scopes["mcp_a_b_pid"], registry.get_tool("mcp_a_b_echo").write_effect]


@TABLE.expects([True, "always"])
async def all_tools_of_a_server_need_no_question(its: Any) -> Any:
    registry = its.ToolRegistry()
    async with initialized(its, {"a": light(autoApprove=["*"])}, registry) as manager:
        everything = sorted(registry.get_tool_names())
        return [
            sorted(manager.auto_approved_tools) == everything,
            manager.tool_scopes["mcp_a_echo"],
        ]


@TABLE.expects(["mine", True, True])
async def a_tool_of_the_host_keeps_its_name(its: Any) -> Any:
    registry = its.ToolRegistry()
    registry.register_tool(tool(its, "mcp_a_echo", description="mine"))
    with logged() as levels:
        async with initialized(its, {"a": light()}, registry) as manager:
            (info,) = manager.get_server_info()
            kept = registry.get_tool("mcp_a_echo").description
            return [kept, "echo" not in info["tools"], "WARNING" in levels]


@TABLE.expects(["[MCP:web-search] The tool echo.", 5000, "external_unverified", "unknown"])
async def a_remote_tool_in_the_registry(its: Any) -> Any:
    registry = its.ToolRegistry()
    async with initialized(its, {"web-search": light()}, registry):
        found = registry.get_tool("mcp_web_search_echo")
        return [
            found.description,
            found.max_result_chars,
            found.consistency,
            found.write_effect,
        ]


@TABLE.expects({"object": "ToolResult"})
async def a_remote_tool_is_called_outside_of_its_engine(its: Any) -> Any:
    registry = its.ToolRegistry()
    async with initialized(its, {"a": light()}, registry):
        return registry.get_tool("mcp_a_echo").func(text="hi")


class HostRegistry:
    """A registry as ExcelManus has it, with a class of its own for tools."""

    def __init__(self) -> None:
        self._tools: dict[str, _ToolDef] = {}

    def register_tools(self, tools: Iterable[_ToolDef]) -> None:
        self._tools |= {it.name: it for it in tools}

    def get_tool(self, tool_name: str) -> _ToolDef | None:
        return self._tools.get(tool_name)

    def get_tool_names(self) -> list[str]:
        return list(self._tools)

    def get_openai_schemas(self) -> list[Any]:
        return [it.to_openai_schema(mode="responses") for it in self._tools.values()]


@TABLE.expects([True, True, 5000, "external_unverified", True])
async def a_registry_of_the_host_gets_tools_of_its_class(its: Any) -> Any:
    registry = HostRegistry()
    registry.register_tools([_ToolDef("sum", "", {}, sum, write_effect="none")])
    async with initialized(its, {"a": light()}, registry):
        known = [registry.get_tool(name) for name in registry.get_tool_names()]
        found = registry.get_tool("mcp_a_echo")
        assert found is not None
        return [
            all(type(it) is _ToolDef for it in known),
            len(registry.get_openai_schemas()) == len(known) > 1,
            found.max_result_chars,
            found.consistency,
            inspect.iscoroutinefunction(found.async_func),
        ]
