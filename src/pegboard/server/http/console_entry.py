"""ConsoleEntry: leads requests to the console, which is imported when the first one comes."""

from typing import TYPE_CHECKING

import anyio.to_thread
from starlette.exceptions import HTTPException

from pegboard.server.http.request import HttpRequest
from pegboard.server.message_limits import BodyTooLargeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import Message

    from pegboard.console.console import Console
    from pegboard.model.principal import Principal

__all__ = ["CONSOLE", "ConsoleEntry"]

CONSOLE = "/console"
"""Where the pages are."""
_BODY, _FIRST_BODY = 4 * 1024 * 1024, 64 * 1024
"""The largest form of a browser that was let in, and of one that asks to be."""


class ConsoleEntry:
    """The pages for people; nothing of them is loaded until one is asked for."""

    def __init__(self, make: "Callable[[], Console]") -> None:
        self._make = make
        self._console: Console | None = None

    async def identify(self, request: HttpRequest) -> None:
        """Set the principal of a request, if its cookie is that of a session."""
        session = await (await self._loaded()).session_of(request.scope)
        request.scope["pegboard.session"] = session
        if session is not None:
            principal: Principal = session.principal
            request.principal = principal

    async def serve(self, request: HttpRequest) -> None:
        """Serve a page."""
        console = await self._loaded()
        request.is_answered = True
        is_in = request.scope["pegboard.session"] is not None
        limited = request.limited_receive(_BODY if is_in else _FIRST_BODY)

        async def receive() -> "Message":
            try:
                return await limited()
            except BodyTooLargeError as error:
                raise HTTPException(413, f"{error}.") from error

        await console(request.scope, receive, request.send)

    async def make_link(self) -> str:
        """Return the path of a link that lets one browser in, once, as the local owner."""
        return (await self._loaded()).make_link()

    def end_streams(self) -> None:
        """End the open streams of pages."""
        if self._console is not None:
            self._console.end_streams()

    async def _loaded(self) -> "Console":
        if self._console is None:
            made = await anyio.to_thread.run_sync(self._make)
            # Another request may have been quicker.
            self._console = self._console or made
        return self._console
