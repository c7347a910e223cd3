"""The upstream of the conformance scenarios about skills: over HTTP, both eras."""

import socket
import sys

import uvicorn

from tests.gateway.skill_servers import Publisher

ROOTS = ("skill://acme/refunds", "skill://git-workflow", "skill://pdf-processing")


def main() -> None:
    publisher = Publisher(*ROOTS, directory_read=True, page=2, lists_resources=True)
    app = publisher.server.streamable_http_app()
    listener = socket.create_server(("127.0.0.1", 0))
    # The socket listens before the test is told.
    print("serving at port", listener.getsockname()[1], file=sys.stderr, flush=True)  # noqa: T201 - the test listens
    uvicorn.Server(uvicorn.Config(app, log_level="critical")).run([listener])


if __name__ == "__main__":
    main()
