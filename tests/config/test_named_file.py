"""Files that a person names: read whatever they are, and never waited for in vain."""

import os
import threading
from pathlib import Path

import pytest

from pegboard.config import load_servers, read_jsonc
from pegboard.config.atomic_write import read_file, read_named_file
from pegboard.config.secrets.env_file import read_env_file
from pegboard.errors import ConfigError

pytestmark = pytest.mark.skipif(os.name != "posix", reason="pipes of POSIX")


@pytest.fixture(autouse=True)
def no_blocking_calls() -> None:
    """The reader of a pipe waits for its writer."""


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


def test_a_file_is_read_up_to_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    assert read_named_file(path) == b"abc"
    assert read_named_file(path, 2) == b"ab"


def test_a_pipe_to_which_nobody_writes_is_refused(pipe: Path) -> None:
    with pytest.raises(OSError, match="no process writes to it"):
        read_named_file(pipe)


@pytest.mark.parametrize("read", [read_jsonc, read_file, read_env_file])
def test_whatever_is_read_from_it_that_is_an_error_of_the_configuration(
    pipe: Path, read: object
) -> None:
    assert callable(read)
    with pytest.raises(ConfigError, match="no process writes to it") as refused:
        read(pipe)
    assert refused.value.path == str(pipe)


def test_a_pipe_is_read_to_its_end_however_slowly_somebody_writes(pipe: Path) -> None:
    # Open for both, so that there is a writer before anything is written, and before a reader is.
    writing = os.open(pipe, os.O_RDWR)
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(read_named_file(pipe)))
    reader.start()
    for _ in range(3):
        with pipe.open("wb") as file:
            file.write(b"x" * 100_000)
    os.close(writing)
    reader.join(5)
    assert found == [b"x" * 300_000]


def test_a_pipe_of_a_shell_is_read() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"abc")
    os.close(writing)
    try:
        assert read_named_file(Path(f"/dev/fd/{reading}")) == b"abc"
    finally:
        os.close(reading)


def test_what_is_read_more_than_once_has_to_be_a_file(pipe: Path) -> None:
    with pytest.raises(ConfigError, match="is a pipe or a device") as refused:
        load_servers(pipe)
    assert not refused.value.is_missing
