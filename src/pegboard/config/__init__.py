"""Configuration of servers: read and write `mcp.json` files in the dialects of all clients."""

from pegboard.config.approval import ServerApproval
from pegboard.config.files.file_schema import config_schema
from pegboard.config.files.jsonc import Document, Member, Node, Position, parse_jsonc, read_jsonc
from pegboard.config.files.locate import Location, Origin, locate_config, user_config_file
from pegboard.config.files.mcp_json import LoadedConfig, load_servers
from pegboard.config.files.servers_file import entry_of
from pegboard.config.problems import Problem, ProblemKind, Severity
from pegboard.config.secrets.variables import Expansion, Undefined, Variables
from pegboard.config.servers import (
    OAuthConfig,
    Protocol,
    RegistryOrigin,
    ServerConfig,
    Sharing,
    Timeouts,
    TlsConfig,
    Transport,
)

__all__ = [
    "Document",
    "Expansion",
    "LoadedConfig",
    "Location",
    "Member",
    "Node",
    "OAuthConfig",
    "Origin",
    "Position",
    "Problem",
    "ProblemKind",
    "Protocol",
    "RegistryOrigin",
    "ServerApproval",
    "ServerConfig",
    "Severity",
    "Sharing",
    "Timeouts",
    "TlsConfig",
    "Transport",
    "Undefined",
    "Variables",
    "config_schema",
    "entry_of",
    "load_servers",
    "locate_config",
    "parse_jsonc",
    "read_jsonc",
    "user_config_file",
]
