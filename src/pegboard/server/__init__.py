"""Server: the wires by which MCP clients come, and the life of the process that serves them.

Names are imported when they are first used: some modules need no MCP SDK, and commands that use
only those are there at once.
"""

from typing import TYPE_CHECKING

from pegboard.lazy_names import Listing, Lookup, lazy_names

if TYPE_CHECKING:
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

_HOMES = {
    "App": "app",
    "FrontDesk": "front_desk",
    "Hosts": "hosts",
    "Limits": "limits",
    "Metrics": "metrics",
    "OnUp": "run",
    "Reception": "authentication",
    "ServeOptions": "serving",
    "Serving": "serving",
    "StdioWire": "stdio_wire",
    "claim_stdio": "stdio_wire",
    "open_serving": "serving",
    "run_http": "run",
    "run_stdio": "run",
    "serve_stdio": "stdio",
}

__getattr__: Lookup
__dir__: Listing
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
