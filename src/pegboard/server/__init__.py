"""Server: the transports that MCP clients connect by, and the process that serves them.

Names are imported when they are first used: some modules need no MCP SDK, and commands that use
only those start faster.
"""

from typing import TYPE_CHECKING

from pegboard.lazy_names import Listing, Lookup, lazy_names

if TYPE_CHECKING:
    from pegboard.server.http.app import App
    from pegboard.server.http.authentication import HttpAuthenticator
    from pegboard.server.http.host_check import HostCheck
    from pegboard.server.http.request import Limits
    from pegboard.server.metrics import Metrics
    from pegboard.server.process.assembly import ServeOptions, Serving, open_serving
    from pegboard.server.process.run import OnUp, run_http, run_stdio
    from pegboard.server.request_pipeline import RequestPipeline
    from pegboard.server.stdio import StdioWire, claim_stdio, serve_stdio

__all__ = [
    "App",
    "HostCheck",
    "HttpAuthenticator",
    "Limits",
    "Metrics",
    "OnUp",
    "RequestPipeline",
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
    "App": "http.app",
    "RequestPipeline": "request_pipeline",
    "HostCheck": "http.host_check",
    "Limits": "http.request",
    "Metrics": "metrics",
    "OnUp": "process.run",
    "HttpAuthenticator": "http.authentication",
    "ServeOptions": "process.assembly",
    "Serving": "process.assembly",
    "StdioWire": "stdio",
    "claim_stdio": "stdio",
    "open_serving": "process.assembly",
    "run_http": "process.run",
    "run_stdio": "process.run",
    "serve_stdio": "stdio",
}

__getattr__: Lookup
__dir__: Listing
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
