"""MCP clients such as Claude and Cursor: import their servers, and connect them to Pegboard."""

from pegboard.clients.connection import (
    OUR_NAME,
    Connected,
    Disconnected,
    connect,
    disconnect,
    has_other_entry,
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
from pegboard.clients.import_plan import OnConflict, PlannedServer, Status, plan_import
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
    "Machine",
    "OnConflict",
    "PlannedServer",
    "Status",
    "TakenOver",
    "answer_questions",
    "client_named",
    "connect",
    "disconnect",
    "exposed_files",
    "files_of_clients",
    "has_other_entry",
    "is_exposed",
    "open_questions",
    "plan_import",
    "served_by_us",
    "servers_in",
    "take_over",
    "taken_out_of",
]
