"""The console in a real browser: journeys of people, and every page without a fault."""

import json
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pegboard.auth import ApiKeys, KeyGrant
from pegboard.model.principal import OPERATOR, Scope
from pegboard.storage import open_store
from tests.journeys.process import ROOT, TOOLS, serve_command, serving

pytestmark = pytest.mark.timeout(180)

PROGRAMS = Path(__file__).parent / "programs"
NODE = TOOLS / "node" / "bin" / "node"
BROWSER = TOOLS / "npm-browser"
NEEDS = ("node", "npm-browser")
PAGES = (
    *("/console", "/console/tools", "/console/search?q=fetch", "/console/calls", "/console/cost"),
    *("/console/health", "/console/waiting"),
)
SCOPES: tuple[Scope, ...] = ("read", "call", "admin")
OPERATORS = ("/console/keys", "/console/configuration")


class Console(msgspec.Struct, frozen=True, kw_only=True):
    """A gateway in a process of its own, and what its owner needs to look at it."""

    origin: str
    folder: Path

    @property
    def store(self) -> str:
        return f"sqlite:///{self.folder}/store.db"

    def link(self) -> str:
        """Return the path of a new one-time link, as the command prints it."""
        own = ["--config", str(self.folder / "mcp.json"), "--store", self.store]
        command = [sys.executable, "-m", "pegboard.cli.main", "console", "--no-browser", *own]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", check=True, cwd=ROOT)
        link = done.stdout.strip()
        assert link.startswith(self.origin)
        return link.removeprefix(self.origin)

    def key(self, scope: Scope) -> str:
        with open_store(self.store, tenant=OPERATOR) as store, ApiKeys(store) as keys:
            return keys.create(KeyGrant(scopes=(scope,))).secret

    def browse(self, journey: str, who: str | None = None, **more: Any) -> dict[str, Any]:
        """Do a journey; no page may have a fault."""
        source = (PROGRAMS / "console_browser.mjs").read_text("utf-8")
        words = [journey, self.origin, who or self.link(), json.dumps(more)]
        # Of a program that is given like this, the packages are looked for in the working
        # directory; the browser is unpacked there as well.
        unpacked = BROWSER / "tmp"
        unpacked.mkdir(exist_ok=True)
        done = subprocess.run(
            [NODE, "--input-type=module", "-e", source, *words],
            capture_output=True,
            encoding="utf-8",
            timeout=300,
            check=False,
            cwd=BROWSER,
            env={**os.environ, "TMPDIR": str(unpacked)},
        )
        assert done.returncode == 0, done.stderr
        seen = json.loads(done.stdout.splitlines()[-1])
        assert seen.pop("faults") == []
        return seen


def stocked(count: int) -> dict[str, Any]:
    return {"command": sys.executable, "args": [str(PROGRAMS / "stocked_server.py"), str(count)]}


@contextmanager
def opened(servers: dict[str, Any], folder: Path) -> Generator[Console]:
    command = serve_command(servers, folder)
    config = folder / "mcp.json"
    gateway = {"auth": {"keys": True}}
    config.write_text(json.dumps({"mcpServers": servers, "gateway": gateway}), "utf-8")
    with serving([*command, "--port", "0"], at=ROOT) as origin:
        yield Console(origin=origin, folder=folder)


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Generator[Console]:
    servers = {"stock": stocked(3), "broken": {"command": "no-such-program"}}
    with opened(servers, tmp_path_factory.mktemp("console")) as console:
        yield console


@pytest.mark.interop(*NEEDS)
def test_a_tool_is_found_and_tried_by_keyboard_alone(console: Console) -> None:
    fields = {"note": "hi"}
    seen = console.browse("try_tool", find="fetch", tool="mcp_stock_fetch_2", fields=fields)
    assert "fetch_2" in seen["result"]


@pytest.mark.interop(*NEEDS)
def test_the_board_leads_to_why_a_server_is_down(console: Console) -> None:
    seen = console.browse("find_fault", server="broken")
    assert "down" in seen["board"] or "tripped" in seen["board"]
    assert "no-such-program" in seen["page"]


@pytest.mark.interop(*NEEDS)
def test_a_link_in_a_message_leads_through_the_login_to_its_page(console: Console) -> None:
    path = "/console/tools?name=fetch_1"
    seen = console.browse("log_in", console.key("read"), path=path)
    assert seen == {"url": console.origin + path, "title": "Tools · Pegboard"}
    elsewhere = console.browse("come_from_elsewhere", site="http://elsewhere.test/")
    assert elsewhere == {"title": "Cost · Pegboard"}


@pytest.mark.interop(*NEEDS)
def test_an_open_page_shows_a_call_of_another(console: Console) -> None:
    tool = "mcp_stock_fetch_0"
    seen = console.browse("stay", tool=tool, fields={"note": "hi"}, figure="Calls since")
    assert int(seen["after"]) == int(seen["before"]) + 1


@pytest.mark.interop(*NEEDS)
def test_every_page_is_well_made_and_needs_no_script(console: Console) -> None:
    paths = [*PAGES, *OPERATORS, "/console/servers/stock", "/console/tools/mcp_stock_fetch_1"]
    seen = console.browse("look_around", paths=paths)
    assert len(seen["titles"]) == 3 * len(paths)
    plain = console.browse("do_without_scripts", paths=paths)
    assert len(plain["headings"]) == len(paths)


@pytest.mark.interop_full(*NEEDS)
@pytest.mark.timeout(600)
@pytest.mark.parametrize("count", [0, 1, 10_000])
def test_every_page_is_well_made_with_any_number_of_tools(count: int, tmp_path: Path) -> None:
    servers = {"stock": stocked(count)} if count else {}
    with opened(servers, tmp_path) as console:
        people = {"owner": console.link(), **{it: console.key(it) for it in SCOPES}}
        for name, who in people.items():
            more = ["/console/servers/stock"] if count else []
            more += OPERATORS if name in ("owner", "admin") else ()
            paths = [*PAGES, *more]
            if name == "read":
                paths.remove("/console/waiting")
            console.browse("look_around", who, paths=paths)
