"""Server: the wires by which MCP clients come, and the life of the process that serves them."""

from pegboard.server.app import App
from pegboard.server.authentication import Reception
from pegboard.server.front_desk import FrontDesk
from pegboard.server.hosts import Hosts
from pegboard.server.limits import Limits
from pegboard.server.metrics import Metrics
from pegboard.server.run import OnUp, run_http, run_stdio
from pegboard.server.serving import ServeOptions, Serving, open_serving
from pegboard.server.stdio import serve_stdio
from pegboard.server.stdio_wire import StdioWire, claim_stdio

__all__ = [
    "App",
    "FrontDesk",
    "Hosts",
    "Limits",
    "Metrics",
    "OnUp",
    "Reception",
    "ServeOptions",
    "Serving",
    "StdioWire",
    "claim_stdio",
    "open_serving",
    "run_http",
    "run_stdio",
    "serve_stdio",
]
