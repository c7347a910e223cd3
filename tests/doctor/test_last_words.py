"""The decisive line of a program's output, and how a missing package is installed."""

import sys
import venv
from pathlib import Path

import pytest

from pegboard.config import ServerConfig
from pegboard.doctor.probes.last_words import decisive_line
from pegboard.doctor.probes.python_packages import how_to_install
from tests.doctor.patients import diagnosis, shell

UV = """\
warning: `VIRTUAL_ENV=/x` does not match the project environment path
error: Request failed after 3 retries
  Caused by: Failed to fetch: `https://pypi.example.com/simple/mcp-server-time/`
  Caused by: error sending request for url (https://pypi.example.com/simple/mcp-server-time/)
  Caused by: client error (Connect)
  Caused by: invalid peer certificate: UnknownIssuer
hint: see the documentation"""
UV_13 = """\
error: Failed to fetch: https://pypi.example.com/simple/mcp-server-time/
  cause: client error (Connect)
  cause: invalid peer certificate: UnknownIssuer"""
NPM = """\
npm error code E404
npm error 404 Not Found - GET https://npm.example.com/nonesuch - Not found
npm error 404
npm error 404 Note that you can also install from a tarball.
npm error A complete log of this run can be found in: /home/me/.npm/_logs/1-debug-0.log"""
TRACEBACK = """\
INFO starting
Traceback (most recent call last):
  File "server.py", line 3, in <module>
    raise RuntimeError("error: nothing works")
RuntimeError: nothing works
INFO exiting, see you
Sentry is attempting to send 1 pending event"""
NODE = """\
node:internal/modules/cjs/loader:1143
  throw err;
Error: boom
    at Module._resolve (node:internal/modules/cjs/loader:1140:15) {
  code: 'X'
}
Node.js v22.1.0"""


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (UV, "Caused by: invalid peer certificate: UnknownIssuer"),
        (UV.replace("UnknownIssuer", "Expired"), "Caused by: invalid peer certificate: Expired"),
        (UV_13.replace("UnknownIssuer", "Expired"), "cause: invalid peer certificate: Expired"),
        (NPM, "npm error code E404"),
        (TRACEBACK, "RuntimeError: nothing works"),
        (NODE, "Error: boom"),
        ("thinking\nFATAL: no disk\nbye", "FATAL: no disk"),
        ("one\ntwo\n", "two"),
        ("npm warn deprecated x\n", "npm warn deprecated x"),
        ("\n \n", None),
        ("", None),
    ],
)
def test_the_decisive_line_is_the_cause(words: str, line: str | None):
    assert decisive_line(words.splitlines()) == line


async def test_the_doctor_quotes_the_error_of_a_traceback_and_not_what_comes_after():
    entry = shell(f"cat >&2 <<'E'\n{TRACEBACK}\nE\nexit 1")
    finding = await diagnosis(entry, "exited")
    assert "its output says: RuntimeError: nothing works." in finding.what


@pytest.mark.parametrize(
    ("words", "variable"),
    [
        (UV, "SSL_CERT_FILE"),
        (UV_13, "SSL_CERT_FILE"),
        ("requests.exceptions.SSLError: [SSL: CERTIFICATE_VERIFY_FAILED]", "REQUESTS_CA_BUNDLE"),
    ],
)
async def test_a_certificate_that_a_server_does_not_trust_is_told(words: str, variable: str):
    finding = await diagnosis(shell(f"cat >&2 <<'E'\n{words}\nE\nexit 1"), "tls_untrusted")
    assert variable in finding.remedy
    assert '"defaults"' in finding.remedy


def server(command: str | Path) -> ServerConfig:
    return ServerConfig(name="it", transport="stdio", command=str(command))


def environment(root: Path, *, pip: bool = False) -> Path:
    """Return the Python of a new environment, without pip unless asked for."""
    venv.create(root, symlinks=True)
    if pip:
        (folder,) = root.glob("lib/python3*/site-packages")
        (folder / "pip").mkdir()
    return root / "bin" / "python"


def test_pip_is_advised_where_it_is_installed(tmp_path: Path):
    python = environment(tmp_path / "it", pip=True)
    assert how_to_install("x", server(python)) == f"{python} -m pip install x"


def test_an_environment_of_uv_gets_a_package_from_uv(tmp_path: Path):
    python = environment(tmp_path / "it")
    with (tmp_path / "it" / "pyvenv.cfg").open("a", encoding="utf-8") as file:
        file.write("uv = 0.13.7\n")
    assert how_to_install("x", server(python)) == f"uv pip install --python {python} x"


def test_an_environment_without_pip_and_uv_gets_pip_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", str(tmp_path))
    python = environment(tmp_path / "it")
    assert (
        how_to_install("x", server(python)) == f"{python} -m ensurepip && {python} -m pip install x"
    )


@pytest.mark.parametrize(
    ("mark", "words"),
    [
        ("uv-receipt.toml", "uv tool install mcp-server-it --with x"),
        ("pipx_metadata.json", "pipx inject mcp-server-it x"),
    ],
)
def test_the_script_of_a_tool_gets_a_package_into_its_own_environment(
    tmp_path: Path, mark: str, words: str
):
    root = tmp_path / "mcp-server-it"
    python = environment(root)
    (root / mark).touch()
    script = tmp_path / "mcp-server-it.py"
    script.write_text(f"#!{python}\n", "utf-8")
    script.chmod(0o755)
    assert how_to_install("x", server(script)) == words


def test_an_unknown_program_gets_the_usual_command():
    assert how_to_install("x", server("sh")) == "python -m pip install x"
    assert sys.executable in how_to_install("x", server(sys.executable))
