"""A wire to a PostgreSQL server that can be cut at an exact moment."""

import socket
import tempfile
import threading
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Literal, Self

from tests.storage.postgres_server import PostgresServer, database_of

Moment = Literal["before", "after"]


class Wire:
    """Passes on what clients and the server say, until told otherwise.

    Args:
        server: where it leads.
    """

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._stack = ExitStack()
        self._word = b""
        self._moment: Moment = "before"
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self.is_down = False
        self.was_cut = threading.Event()
        self.refused = threading.Event()

    def __enter__(self) -> Self:
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="pegboard-wire-"))
        self._folder = Path(folder)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self._folder / ".s.PGSQL.5432"))
        self._listener.listen()
        self._run(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.go_down()
        for thread in self._threads:
            thread.join(timeout=5)
        for it in self._sockets:
            it.close()
        self._stack.close()

    def url(self, url: str) -> str:
        """Return the URL of a database by way of this wire."""
        return f"postgresql://postgres@/{database_of(url)}?host={self._folder}"

    def cut_at(self, word: bytes, moment: Moment) -> None:
        """Cut the connection whose client next says a word: before or after the server obeys."""
        self.was_cut.clear()
        self._moment = moment
        self._word = word

    def refuse_connections(self) -> None:
        """Refuse new connections; those that there are stay."""
        self.is_down = True

    def go_down(self) -> None:
        """Cut everything, and let no connection through until `come_up`."""
        self.refused.clear()
        self.refuse_connections()
        for it in self._sockets:
            _hang_up(it)

    def come_up(self) -> None:
        """Let every connection through again."""
        self.is_down = False

    def _run(self, target: object, *arguments: socket.socket) -> None:
        assert callable(target)
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.is_down:
                client.close()
                self.refused.set()
                continue
            server = socket.socket(socket.AF_UNIX)
            server.connect(str(self._server.folder / ".s.PGSQL.5432"))
            self._sockets += [client, server]
            self._run(self._to_server, client, server)
            self._run(self._to_client, client, server)

    def _to_server(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while said := client.recv(65536):
                if self._word and self._word in said:
                    self._word = b""
                    if self._moment == "after":
                        # No client hears the answer.
                        _hang_up(client)
                        server.sendall(said)
                    self.was_cut.set()
                    break
                server.sendall(said)
        _hang_up(client)
        with suppress(OSError):
            server.shutdown(socket.SHUT_WR)

    def _to_client(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while said := server.recv(65536):
                with suppress(OSError):
                    client.sendall(said)
        _hang_up(client)


def _hang_up(it: socket.socket) -> None:
    with suppress(OSError):
        it.shutdown(socket.SHUT_RDWR)
