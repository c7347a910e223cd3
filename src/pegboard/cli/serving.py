"""What `pegboard serve` does, and what it says while it does it."""

import argparse
import json
import logging
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyio

from pegboard.cli.demo import demo_config
from pegboard.server import ServeOptions, Serving, claim_stdio, run_http, run_stdio
from pegboard.storage import default_url

__all__ = ["run"]

INTERRUPTED = 130


def run(options: argparse.Namespace) -> int:
    """Serve until somebody ends it."""
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO if options.verbose else logging.WARNING,
        format="%(levelname)s %(name)s: %(message)s",
    )
    serve = _options_of(options)
    try:
        if options.stdio:
            with claim_stdio() as descriptors:
                anyio.run(run_stdio, serve, descriptors, partial(_tell, options))
        else:
            anyio.run(run_http, serve, partial(_tell, options))
    except KeyboardInterrupt:  # before anybody listens to signals, or after
        return INTERRUPTED
    return 0


def _options_of(options: argparse.Namespace) -> ServeOptions:
    # What is tried out is not to be found among somebody's own things later.
    storage = options.store if options.demo else options.store or default_url()
    return ServeOptions(
        config=demo_config() if options.demo else options.config,
        storage=storage,
        audit_file=options.audit,
        host=options.host,
        port=options.port,
        surface=options.surface,
        allow_hosts=tuple(options.allow_host),
        allow_origins=tuple(options.allow_origin),
        allow_anonymous=options.allow_anonymous,
        drain_seconds=options.drain,
        notice_seconds=options.notice,
    )


def _tell(options: argparse.Namespace, serving: Serving, address: str) -> None:
    """Say what is served, and where, to the person who started it."""
    lines = [*_about_servers(options, serving), *_about_address(options, address)]
    print("\n".join(lines), file=sys.stderr, flush=True)  # noqa: T201 - this is a command


def _about_servers(options: argparse.Namespace, serving: Serving) -> Iterator[str]:
    servers = serving.hub.servers
    yield f"Pegboard serves {len(serving.hub.registry)} tools of {len(servers)} servers."
    for name, it in servers.items():
        error = f": {it.last_error}" if it.last_error else ""
        yield f"  {name:<16} {it.state}, {it.tool_count} tools{error}"
    if not servers and not options.demo:
        yield "  No server is configured: write an mcp.json, or try `pegboard serve --demo`."


def _about_address(options: argparse.Namespace, address: str) -> Iterator[str]:
    if not address:
        yield "It talks on standard input and output."
        return
    face = "find and call them by search" if options.surface == "search" else "all of them"
    yield f"  {address}/mcp        {face}; /mcp-full and /mcp-search choose, /mcp/<server> narrows"
    yield f"  {address}/sse        the same for older clients"
    yield f"  {address}/healthz    also /readyz and /metrics"
    snippet: dict[str, Any] = {"mcpServers": {"pegboard": {"url": f"{address}/mcp"}}}
    yield f"For the file of your client: {json.dumps(snippet)}"
