"""Walk a call and a search: the files of `src/pegboard` that a real request enters, in order.

`walks` starts this module as a process of its own. There `pegboard serve` runs with one server on a
pipe, a client sends requests over HTTP, and once everything is warm one request is traced.
"""

import http.client
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import anyio
import anyio.to_thread

import pegboard
from pegboard.server.process.assembly import ServeOptions
from pegboard.server.process.run import run_http
from scripts.places import ROOT

__all__ = ["Entry", "Hop", "Walk", "walks"]

_SOURCE = f"{Path(pegboard.__file__).parent}{os.sep}"
_SERVER = ROOT / "tests/upstream/servers/light_server.py"
_VERSION = "2026-07-28"
_META = {
    "io.modelcontextprotocol/protocolVersion": _VERSION,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "walk", "version": "1"},
}
_WARM = 20
"""Requests before the traced ones."""
_ALIKE, _TRACED = 5, 100
"""A request is traced until so many traces are alike: those that no other task has disturbed, and
that found the process as it stays. It is traced so often at most."""
_SENDING = ("write", "send")

Mark = Callable[[FrameType, str, Any], bool]
"""Tells by an event of `sys.setprofile` whether the request has reached its destination."""


class Hop(NamedTuple):
    """A function that waits for the next one when the request reaches its destination."""

    file: str
    function: str


class Entry(NamedTuple):
    """A file that a request enters for the first time."""

    file: str
    function: str
    """The function that it enters there."""
    hop: int
    """The number of the last hop below it; 0 for another task, such as the reader of a pipe."""
    is_back: bool
    """Whether the request had reached its destination before."""


class Walk(NamedTuple):
    """The way of one request through `src/pegboard`."""

    hops: list[Hop]
    entries: list[Entry]

    @property
    def files(self) -> list[str]:
        """The files, in the order in which the request enters them."""
        return [it.file for it in self.entries]


@cache
def walks() -> dict[str, Walk]:
    """Trace a call of a server's tool (``call``) and a call of `search_tools` (``search``)."""
    with tempfile.TemporaryDirectory() as home:
        # The gateway announces itself, and caches lists of tools, in the home of its user.
        ours = ("XDG_", "PEGBOARD_")
        others = {key: it for key, it in os.environ.items() if not key.startswith(ours)}
        done = subprocess.run(
            [sys.executable, "-m", "scripts.walks"],
            cwd=ROOT,
            env={**others, "HOME": home, "USERPROFILE": home},
            stdout=subprocess.PIPE,
            timeout=50,
            check=True,
        )
    return {
        name: Walk([Hop(*it) for it in hops], [Entry(*it) for it in entries])
        for name, (hops, entries) in json.loads(done.stdout).items()
    }


class _Tracer:
    """Notes each file that is entered, until the mark and after it."""

    def __init__(self, has_arrived: Mark) -> None:
        self._has_arrived = has_arrived
        self._hops: list[Hop] = []
        self._seen: dict[str, tuple[list[Hop], bool]] = {}

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(_SOURCE) and name not in self._seen:
            self._seen[name] = (list(_stack(frame))[::-1], bool(self._hops))
        if not self._hops and self._has_arrived(frame, event, argument):
            self._hops = list(_stack(frame))[::-1]

    def walk(self) -> Walk:
        entries: list[Entry] = []
        for stack, is_back in self._seen.values():
            pairs = zip(stack, self._hops, strict=False)
            below = next((at for at, (one, other) in enumerate(pairs) if one != other), None)
            hop = min(len(stack), len(self._hops)) if below is None else below
            entries.append(Entry(stack[-1].file, stack[-1].function, hop, is_back))
        return Walk(self._hops, entries)


def _stack(frame: FrameType | None) -> Iterator[Hop]:
    """Yield the functions of `src/pegboard` on the stack, the innermost first."""
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(_SOURCE):
            function = frame.f_code.co_qualname.replace(".<locals>", "")
            yield Hop(name.removeprefix(_SOURCE).replace(os.sep, "/"), function)
        frame = frame.f_back


def _is_sent(frame: FrameType, event: str, argument: Any) -> bool:
    """Tell whether the bytes of a call are being written to a server."""
    is_sending = event == "c_call" and getattr(argument, "__name__", "") in _SENDING
    return is_sending and any(it.file.startswith("upstream/") for it in _stack(frame))


def _is_ranked(frame: FrameType, event: str, _: Any) -> bool:
    """Tell whether the search engine begins to rank tools."""
    return (
        event == "call"
        and frame.f_code.co_filename.startswith(f"{_SOURCE}search/methods/")
        and (frame.f_code.co_name == "search")
    )


_CASES: dict[str, tuple[str, str, dict[str, Any], Mark]] = {
    "call": ("/mcp-full", "mcp_light_echo", {"text": "hello"}, _is_sent),
    "search": ("/mcp", "search_tools", {"query": "add numbers"}, _is_ranked),
}
"""Of each walk the path, the tool, its arguments, and where the request is to arrive."""


async def _trace() -> dict[str, Walk]:
    config = {"mcpServers": {"light": {"command": sys.executable, "args": [str(_SERVER)]}}}
    options = ServeOptions(config=config, port=0)
    address = ""
    is_up = anyio.Event()

    def on_up(_: object, url: str) -> None:
        nonlocal address
        address = url.removeprefix("http://")
        is_up.set()

    found: dict[str, Walk] = {}
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run_http, options, on_up)
        await is_up.wait()
        client = http.client.HTTPConnection(address)
        for name, (path, tool, arguments, mark) in _CASES.items():
            for _ in range(_WARM):
                await anyio.to_thread.run_sync(_call, client, path, tool, arguments)
            traced: list[Walk] = []
            while len(traced) < _TRACED and (not traced or traced.count(traced[-1]) < _ALIKE):
                tracer = _Tracer(mark)
                sys.setprofile(tracer)
                await anyio.to_thread.run_sync(_call, client, path, tool, arguments)
                sys.setprofile(None)
                traced.append(tracer.walk())
            found[name] = traced[-1]
        client.close()
        tasks.cancel_scope.cancel()
    return found


def _call(
    client: http.client.HTTPConnection, path: str, tool: str, arguments: dict[str, Any]
) -> None:
    params = {"name": tool, "arguments": arguments, "_meta": _META}
    headers = {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": _VERSION,
        "mcp-method": "tools/call",
        "mcp-name": tool,
    }
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    client.request("POST", path, json.dumps(request), headers)
    response = json.loads(client.getresponse().read())
    if response.get("result", {"isError": True}).get("isError"):
        raise RuntimeError(f"The call failed: {response}")


if __name__ == "__main__":
    sys.stdout.write(json.dumps(anyio.run(_trace)))
