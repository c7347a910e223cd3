"""Redirect listener: catch the OAuth redirect of the browser on a local port."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from urllib.parse import parse_qsl

import anyio
from anyio.abc import SocketStream

__all__ = ["CALLBACK_PATH", "browser_answers"]

CALLBACK_PATH = "/callback"
_LONGEST_HEAD = 16 * 1024
_SECONDS_PER_REQUEST = 5.0
_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Pegboard</title>
<body style="font: 1.1rem system-ui; margin: 4rem auto; max-width: 30rem">
<h1>{title}</h1><p>{text}</p></body></html>
"""


@asynccontextmanager
async def browser_answers(*, port: int, state: str) -> AsyncGenerator["_Redirect"]:
    """Listen on 127.0.0.1 until the redirect with this ``state`` has come, or the block ends.

    Raises:
        OSError: when the port is taken.
    """
    answer = _Redirect(state)
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port)
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, answer.receive)
        try:
            yield answer
        finally:
            group.cancel_scope.cancel()


class _Redirect:
    """The parameters of the redirect, once it has come."""

    def __init__(self, state: str) -> None:
        self._state = state
        self._parameters: dict[str, str] = {}
        self._arrived = anyio.Event()

    async def wait(self) -> dict[str, str]:
        """Return the parameters of the redirect: ``code`` and ``state``, or ``error``."""
        await self._arrived.wait()
        return self._parameters

    async def receive(self, stream: SocketStream) -> None:
        # Browsers open connections they never use, and any local program may connect.
        async with stream:
            with anyio.move_on_after(_SECONDS_PER_REQUEST):
                with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                    await stream.send(self._reply(await _target(stream)))
        if self._parameters:
            self._arrived.set()

    def _reply(self, target: str | None) -> bytes:
        path, _, query = (target or "").partition("?")
        parameters = dict(parse_qsl(query))
        if path != CALLBACK_PATH or parameters.get("state") != self._state:
            return _page("400 Bad Request", "Not expected", "This is not the login we wait for.")
        self._parameters = parameters
        if "error" in parameters:
            return _page("200 OK", "Not logged in", "The login was refused. You can close this.")
        return _page("200 OK", "Logged in", "You can close this window and go back.")


async def _target(stream: SocketStream) -> str | None:
    head = b""
    while b"\r\n\r\n" not in head and len(head) < _LONGEST_HEAD:
        head += await stream.receive()
    method, _, rest = head.partition(b" ")
    target, _, _ = rest.partition(b" ")
    return target.decode("ascii", "replace") if method == b"GET" else None


def _page(status: str, title: str, text: str) -> bytes:
    body = _PAGE.format(title=title, text=text).encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
