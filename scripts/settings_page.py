"""The page with every setting of the configuration file, and every environment variable."""

import json
from collections.abc import Mapping
from typing import Any, get_type_hints

import msgspec

from pegboard.auth.settings import AuthSettings, TokenIssuer
from pegboard.config.files.entry import (
    SPELLINGS,
    OAuthEntry,
    OriginEntry,
    ServerEntry,
    TimeoutsEntry,
    TlsEntry,
)
from pegboard.config.files.registry_settings import RegistrySettings
from pegboard.config.servers import OAuthConfig, RegistryOrigin, ServerConfig, Timeouts, TlsConfig
from pegboard.gateway.options import GatewayOptions, Profile
from pegboard.server.http.request import Limits
from scripts.struct_tables import meanings, table, type_words

__all__ = ["VARIABLES", "page"]

VARIABLES = {
    "PEGBOARD_CONFIG": "the file with your servers, unless `--config` names one",
    "PEGBOARD_STORE": "the URL or path of the store, unless `--store` names one",
    "PEGBOARD_REGISTRY": "the URL of the MCP registry, unless `--registry` names one",
    "PEGBOARD_AUTH": "`keys` requires API keys, `open` lets every client in; overrides the file",
    "PEGBOARD_AUTH_ISSUER": "accept tokens of this issuer",
    "PEGBOARD_AUTH_AUDIENCE": "the accepted values of their `aud`, separated by commas",
    "PEGBOARD_AUTH_JWKS_URL": "the address of that issuer's public keys",
    "PEGBOARD_AUTH_TENANT_CLAIM": "the claim that names the tenant",
    "PEGBOARD_AUTH_RESOURCE": "the address at which clients reach this gateway",
    "PEGBOARD_SEARCH_METHOD": "the default method of `search_tools`, such as `bm25`; stronger than "
    "`gateway.search_method`",
    "PEGBOARD_DEBUG": "`1` shows the traceback of an error, as `--debug` does",
    "PEGBOARD_WORD_TABLE": "another word table for the search, made by `make words-table`",
    "CLAUDE_CONFIG_DIR": "the folder of Claude Code's `.claude.json`, for `import` and `connect`",
    "CODEX_HOME": "the folder of Codex's `config.toml`, for `import` and `connect`",
    "NO_COLOR": "switches colours off if it has any value that is not empty",
}
"""The meaning of each environment variable."""

# Where the code has nothing to add to the name, a reader of the page still has a question.
_WORDS: Mapping[tuple[type[msgspec.Struct], str], str] = {
    (ServerEntry, "timeouts"): "How many seconds Pegboard waits for each step: see below.",
    (OAuthEntry, "flow"): "Whether a person logs in, or this program by itself.",
    (TokenIssuer, "algorithms"): "The accepted signature algorithms; only public-key ones.",
    (TokenIssuer, "servers"): "Glob patterns of the servers that its tokens reach.",
    (TokenIssuer, "tools"): "Glob patterns of the tools that its tokens reach.",
    (TokenIssuer, "calls_per_minute"): "How many calls each caller may make in a minute.",
    (TokenIssuer, "concurrent_calls"): "How many calls each caller may have under way.",
}
_DEFAULTS: Mapping[str, object] = {"enabled": True, "disabled": False}

_OPENING = """# Every setting

<!-- Made by `python -m scripts.reference` out of the code: change it there. -->

All settings are in one JSON file, which may contain comments.
[Configure your servers](../guides/configuration.md) says where the file is and how to write it.
`pegboard config check` finds the problems in your file, and `pegboard config schema` prints the
JSON Schema for your editor.
"""


def page() -> str:
    """Return the text of the page."""
    return "\n".join(
        [
            _OPENING,
            "## A server\n\nThe entry under its name in `mcpServers`. Any string may contain "
            "[variables](../guides/configuration.md#keep-secrets-out-of-the-file).\n",
            _entries(ServerEntry, ServerConfig),
            "\n### `timeouts`\n\nIn seconds.\n",
            _entries(TimeoutsEntry, Timeouts),
            "\n### `oauth`\n\nAn object, or `true` for the defaults.\n",
            _entries(OAuthEntry, OAuthConfig),
            "\n### `tls`\n\nPaths start at the configuration file; `~` is your home folder. "
            "[Use a hosted server](../guides/hosted-servers.md) explains each field.\n",
            _entries(TlsEntry, TlsConfig),
            "\n### `registry`\n\n`pegboard add` writes it.\n",
            _entries(OriginEntry, RegistryOrigin),
            "\n## MCP registries\n\nThe section `registry`. [Find servers]"
            "(../guides/finding-servers.md) explains it.\n",
            _fields(RegistrySettings),
            "\n## The gateway\n\nThe section `gateway`. Its `auth` and `limits` are described "
            "below; its `tenants` is an object with the configuration file of each tenant but the "
            "first.\n",
            _fields(GatewayOptions),
            "\n### `gateway.profiles`\n\nEach profile, by its name:\n",
            _fields(Profile),
            "\n### `gateway.limits`\n\nLimits of HTTP requests and sessions: sizes in bytes, "
            "times in seconds.\n",
            _fields(Limits),
            "\n### `gateway.auth`\n",
            _fields(AuthSettings),
            "\n### `gateway.auth.issuers`\n\nEach item of the list:\n",
            _fields(TokenIssuer),
            "\n## Environment variables\n",
            table(
                [(f"`{name}`", words) for name, words in VARIABLES.items()], "Variable", "Meaning"
            ),
            "",
        ]
    )


def _entries(kind: type[msgspec.Struct], read_as: type[msgspec.Struct]) -> str:
    hints, words = get_type_hints(kind, include_extras=True), meanings(kind)
    counts = {it.name: it for it in msgspec.structs.fields(read_as)}
    rows: list[tuple[str, ...]] = []
    for name in kind.__struct_fields__:
        default = _default(counts[name]) if name in counts else ""
        spelt = ", ".join(f"`{it}`" for it, field in SPELLINGS[kind].items() if field == name)
        also = f" Also written {spelt}." if spelt else ""
        meaning = _WORDS.get((kind, name)) or words[name]
        shown = _shown(_DEFAULTS[name]) if name in _DEFAULTS else default
        rows.append((f"`{name}`", type_words(hints[name]), shown, meaning + also))
    return table(rows, "Field", "What it holds", "Default", "Meaning")


def _fields(kind: type[msgspec.Struct]) -> str:
    hints, words = get_type_hints(kind, include_extras=True), meanings(kind)
    rows = [
        (
            f"`{it.name}`",
            type_words(hints[it.name]),
            _default(it),
            _WORDS.get((kind, it.name)) or words[it.name],
        )
        for it in msgspec.structs.fields(kind)
    ]
    return table(rows, "Field", "What it holds", "Default", "Meaning")


def _default(field: Any) -> str:
    if field.default_factory is not msgspec.NODEFAULT:
        return _shown(field.default_factory())
    return "required" if field.default is msgspec.NODEFAULT else _shown(field.default)


def _shown(value: object) -> str:
    if value is None or isinstance(value, msgspec.Struct):
        return ""
    plain = msgspec.to_builtins(value)
    return f"`{json.dumps(plain)}`" if plain not in ([], (), {}) else "none"
