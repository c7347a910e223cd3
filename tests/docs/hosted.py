"""The hosted server of `docs/guides/hosted-servers.md`: over HTTPS, with a token and a CA."""

import ssl
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server import MCPServer
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from tests.tls import Authority
from tests.upstream.http_servers import bound

TOKEN = "token-of-the-notes"


@contextmanager
def hosted_notes(folder: Path) -> Generator[dict[str, str]]:
    """Serve the notes at two addresses; gives the environment variables that name them."""
    authority = Authority(folder)
    plain: dict[str, Any] = {"ssl_certfile": str(authority.sign())}
    mutual = {
        **plain,
        "ssl_ca_certs": str(authority.ca),
        "ssl_cert_reqs": ssl.CERT_REQUIRED,
    }
    with _serving(plain) as url, _serving(mutual) as mutual_url:
        yield {
            "NOTES_URL": url,
            "NOTES_MUTUAL_URL": mutual_url,
            "NOTES_TOKEN": TOKEN,
            "NOTES_CA": str(authority.ca),
            "NOTES_CLIENT_CERT": str(authority.sign()),
        }


def _app() -> Any:
    server = MCPServer("notes", log_level="CRITICAL")

    @server.tool()
    def greet(name: str) -> str:
        return f"Hello, {name}!"

    app = server.streamable_http_app()

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope.get("headers", ()))
        if scope["type"] == "http" and headers.get(b"authorization") != f"Bearer {TOKEN}".encode():
            await PlainTextResponse("No.", 401)(scope, receive, send)
        else:
            await app(scope, receive, send)

    return guarded


@contextmanager
def _serving(options: dict[str, Any]) -> Generator[str]:
    listener = bound()
    config = uvicorn.Config(
        _app(), log_level="critical", lifespan="on", timeout_graceful_shutdown=0, **options
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        yield f"https://127.0.0.1:{listener.getsockname()[1]}/mcp"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()
