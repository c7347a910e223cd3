"""MCP clients such as Claude and Cursor: import their servers, and connect them to Pegboard."""

from pegboard.clients.connection import (
    OUR_NAME,
    Connected,
    Disconnected,
    connect,
    connected_file,
    disconnect,
    has_other_entry,
    own_servers,
    served_by_us,
    taken_out_of,
)
from pegboard.clients.found_servers import (
    AskedInput,
    ClientFile,
    FoundServer,
    exposed_files,
    files_of_clients,
    is_exposed,
    servers_in,
)
from pegboard.clients.identity import differing_fields
from pegboard.clients.import_plan import (
    OnConflict,
    PlannedServer,
    Status,
    plan_import,
    read_found,
)
from pegboard.clients.import_record import Imported, ImportRecord
from pegboard.clients.known_clients import CLIENTS, ClientApp, Machine, client_named
from pegboard.clients.take_over import (
    Answers,
    TakenOver,
    answer_questions,
    open_questions,
    take_over,
)

__all__ = [
    "CLIENTS",
    "OUR_NAME",
    "Answers",
    "AskedInput",
    "ClientApp",
    "ClientFile",
    "Connected",
    "Disconnected",
    "FoundServer",
    "ImportRecord",
    "Imported",
    "Machine",
    "OnConflict",
    "PlannedServer",
    "Status",
    "TakenOver",
    "answer_questions",
    "client_named",
    "connect",
    "connected_file",
    "differing_fields",
    "disconnect",
    "exposed_files",
    "files_of_clients",
    "has_other_entry",
    "is_exposed",
    "open_questions",
    "own_servers",
    "plan_import",
    "read_found",
    "served_by_us",
    "servers_in",
    "take_over",
    "taken_out_of",
]
