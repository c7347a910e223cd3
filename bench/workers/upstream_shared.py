"""How calls are timed, whoever makes them; and the HTTP server they go to."""

import asyncio
import json
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

SERVER = Path(__file__).parent / "upstream_server.py"
OURS = Path(__file__).parents[2] / ".venv" / "bin" / "python"
TEXT = {"text": "hello"}
Call = Callable[[], Awaitable[object]]


@contextmanager
def http_server() -> Iterator[str]:
    """Run the server in a process of its own, always with our SDK; gives its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen([OURS, SERVER, "http", str(port)])
    try:
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                if time.monotonic() > deadline or process.poll() is not None:
                    raise SystemExit("The HTTP server did not start.") from None
                time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.wait()


async def timed(call: Call, calls: int, *, at_once: int) -> float:
    """Return the seconds per call."""
    began = time.perf_counter()
    if at_once == 1:
        for _ in range(calls):
            await call()
    else:
        for _ in range(calls // at_once):
            await asyncio.gather(*[call() for _ in range(at_once)])
    return (time.perf_counter() - began) / calls


async def compare(
    contenders: dict[str, Call], *, calls: int, blocks: int, at_once: int = 1
) -> dict[str, float]:
    """Time the contenders in turns; each figure is a median, ratios are to the first."""
    for call in contenders.values():
        await timed(call, at_once * 4, at_once=at_once)
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(blocks):
        for name, call in contenders.items():
            times[name].append(await timed(call, calls, at_once=at_once))
    first = next(iter(contenders))
    figures = {name: statistics.median(values) for name, values in times.items()}
    for name, values in times.items():
        ratios = [mine / base for mine, base in zip(values, times[first], strict=True)]
        figures[f"{name}_ratio"] = statistics.median(ratios)
    return figures


def report(**figures: float) -> None:
    """Print the figures of one repetition."""
    sys.stdout.write(json.dumps(figures) + "\n")
