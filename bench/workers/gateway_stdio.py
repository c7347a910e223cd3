"""What a stdio server does by itself, always some calls ahead: `CALLS SECONDS COMMAND…`."""

import json
import subprocess
import sys
import time
from typing import Any

from gateway_load import ARGUMENTS, CLIENT, HANDSHAKE, WARM_UP, call, modern_envelope


class Child:
    """A server on its pipes."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._in, self._out = process.stdin, process.stdout
        self._calls = 0

    def send(self, message: dict[str, Any]) -> None:
        self._in.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self._in.flush()

    def shake_hands(self) -> None:
        params = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": CLIENT}
        self.send({"id": 0, "method": "initialize", "params": params})
        self._out.readline()
        self.send({"method": "notifications/initialized"})

    def call(self, meta: dict[str, Any]) -> None:
        self._calls += 1
        self.send({**call("echo", ARGUMENTS, meta), "id": self._calls})

    def take(self) -> None:
        line = self._out.readline()
        if b"hello" not in line:
            raise SystemExit(f"It answered {line[:300]!r}")


def rate(command: list[str], era: str, *, ahead: int, seconds: float) -> float:
    """Return the calls per second in an era."""
    meta = modern_envelope() if era == "modern" else {}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        child = Child(process)
        if era == "legacy":
            child.shake_hands()
        for _ in range(ahead):
            child.call(meta)
        _go_on(child, meta, WARM_UP)
        began = time.perf_counter()
        done = _go_on(child, meta, seconds)
        passed = time.perf_counter() - began
        process.kill()
    return done / passed


def _go_on(child: Child, meta: dict[str, Any], seconds: float) -> int:
    done, ends = 0, time.perf_counter() + seconds
    while time.perf_counter() < ends:
        child.take()
        child.call(meta)
        done += 1
    return done


if __name__ == "__main__":
    ahead, seconds, *command = sys.argv[1:]
    rates = [
        rate(command, era, ahead=int(ahead), seconds=float(seconds) / 2)
        for era in ("modern", "legacy")
    ]
    print(json.dumps({"calls_per_second": max(rates)}))
