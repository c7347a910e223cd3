"""The page with every setting of the configuration file, and every environment variable."""

import json
from collections.abc import Mapping
from typing import Any, get_type_hints

import msgspec

from pegboard.auth.settings import AuthSettings, TokenIssuer
from pegboard.config.files.entry import SPELLINGS, OAuthEntry, ServerEntry, TimeoutsEntry
from pegboard.config.servers import OAuthConfig, ServerConfig, Timeouts
from pegboard.gateway.options import GatewayOptions, Profile
from scripts.struct_tables import meanings, table, type_words

__all__ = ["VARIABLES", "page"]

VARIABLES = {
    "PEGBOARD_CONFIG": "the file with your servers, where no `--config` names one",
    "PEGBOARD_STORE": "the URL or path of the store, where no `--store` names one",
    "PEGBOARD_AUTH": "`keys` asks for API keys, `open` lets everybody in; stronger than the file",
    "PEGBOARD_AUTH_ISSUER": "accept tokens of this issuer",
    "PEGBOARD_AUTH_AUDIENCE": "what one of their `aud` must be; several, separated by commas",
    "PEGBOARD_AUTH_JWKS_URL": "where that issuer's public keys are",
    "PEGBOARD_AUTH_TENANT_CLAIM": "the claim that names the tenant",
    "PEGBOARD_AUTH_RESOURCE": "the address of this gateway as clients have it",
    "PEGBOARD_SEARCH_METHOD": "the default method of `search_tools`, such as `bm25`; stronger than "
    "`gateway.search_method`",
    "PEGBOARD_DEBUG": "`1` shows the traceback of an error, as `--debug` does",
    "PEGBOARD_WORD_TABLE": "another table of words for the search, made by `make words-table`",
    "CLAUDE_CONFIG_DIR": "the folder of Claude Code's `.claude.json`, for `import` and `connect`",
    "CODEX_HOME": "the folder of Codex's `config.toml`, for `import` and `connect`",
    "NO_COLOR": "no colours, whatever its value, unless that is empty",
}
"""What each environment variable says."""

# Where the code has nothing to add to the name, a reader of the page still has a question.
_WORDS: Mapping[tuple[type[msgspec.Struct], str], str] = {
    (ServerEntry, "timeouts"): "How many seconds to wait for what: see below.",
    (OAuthEntry, "flow"): "Whether a person logs in, or this program by itself.",
    (TokenIssuer, "algorithms"): "By which its tokens may be signed; only those with a public key.",
    (TokenIssuer, "servers"): "Glob patterns of the servers that its tokens reach.",
    (TokenIssuer, "tools"): "Glob patterns of the tools that its tokens reach.",
    (TokenIssuer, "calls_per_minute"): "How many calls each caller may make in a minute.",
    (TokenIssuer, "concurrent_calls"): "How many calls each caller may have under way.",
}
_DEFAULTS: Mapping[str, object] = {"enabled": True, "disabled": False}

_OPENING = """# Every setting

<!-- Made by `python -m scripts.reference` out of the code: change it there. -->

All of this stands in one file of JSON, with comments if you like. Where it is and how to write it:
[Configure your servers](../guides/configuration.md). `pegboard config check` finds what is wrong
with yours, and `pegboard config schema` prints the JSON Schema for your editor.
"""


def page() -> str:
    """Return the text of the page."""
    return "\n".join(
        [
            _OPENING,
            "## A server\n\nWhat stands under its name in `mcpServers`. Any text may hold "
            "[variables](../guides/configuration.md#keep-secrets-out-of-the-file).\n",
            _entries(ServerEntry, ServerConfig),
            "\n### `timeouts`\n\nIn seconds.\n",
            _entries(TimeoutsEntry, Timeouts),
            "\n### `oauth`\n\nAn object, or `true` where the defaults will do.\n",
            _entries(OAuthEntry, OAuthConfig),
            "\n## The gateway\n\nWhat stands in the section `gateway`, besides `auth` and "
            "`tenants` (an object: the file with the servers of each tenant but the first).\n",
            _fields(GatewayOptions),
            "\n### `gateway.profiles`\n\nEach, by its name:\n",
            _fields(Profile),
            "\n### `gateway.auth`\n",
            _fields(AuthSettings),
            "\n### `gateway.auth.issuers`\n\nEach of the list:\n",
            _fields(TokenIssuer),
            "\n## Environment variables\n",
            table([(f"`{name}`", words) for name, words in VARIABLES.items()], "Variable", "Says"),
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
