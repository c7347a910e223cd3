"""Persistent storage of tools, usage and values: a JSON file, SQLite or PostgreSQL."""

from pegboard.storage.encoding import (
    check_key,
    decode_tool,
    encode_extras,
    encode_tool,
    encode_value,
)
from pegboard.storage.export_import import Copied, copy_store
from pegboard.storage.leases import LEASES, lease
from pegboard.storage.open_store import DEFAULT_TENANT, default_url, open_store
from pegboard.storage.store import (
    ANY,
    KeyValues,
    OnProgress,
    Revision,
    Store,
    StoreChange,
    StoredTool,
    StoredValue,
    Use,
)
from pegboard.storage.watchers import Watchers

__all__ = [
    "ANY",
    "DEFAULT_TENANT",
    "LEASES",
    "Copied",
    "KeyValues",
    "OnProgress",
    "Revision",
    "Store",
    "StoreChange",
    "StoredTool",
    "StoredValue",
    "Use",
    "Watchers",
    "check_key",
    "copy_store",
    "decode_tool",
    "default_url",
    "encode_extras",
    "encode_tool",
    "encode_value",
    "lease",
    "open_store",
]
