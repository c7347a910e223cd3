"""LocalApi: what the commands of the person who runs this process ask it."""

import hmac
import secrets
from functools import partial
from typing import Any

import anyio.to_thread
import msgspec

from pegboard.auth import credential_in
from pegboard.auth.settings import is_loopback
from pegboard.errors import InvalidQueryError, UnauthenticatedError
from pegboard.gateway.catalog.tool_list import raw_definition
from pegboard.hub import Hub
from pegboard.search import SearchOptions
from pegboard.server.http.request import HttpRequest
from pegboard.server.startup import Startup

__all__ = ["LocalApi", "LocalToken", "Wanted"]


class LocalToken:
    """Makes a token for the time that this process runs, and knows it again."""

    def __init__(self) -> None:
        self.token: str = f"pbo_{secrets.token_urlsafe(32)}"
        """What the announcement of this process holds."""

    def sent(self, request: HttpRequest) -> bool:
        """Tell whether a request is theirs: it has the token, and comes from this machine."""
        if not is_loopback(request.source) or request.has_twice("authorization"):
            return False
        try:
            credential = credential_in(request.headers.get("authorization"))
        except UnauthenticatedError:
            return False
        given = (credential or "").encode("latin-1", "replace")
        return hmac.compare_digest(given, self.token.encode())


_PLACE = "/owner/"
_LONGEST = 64 * 1024


class Wanted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A search."""

    text: str
    options: dict[str, Any] = {}


class LocalApi:
    """Answers under ``/owner/`` whoever has the owner's token; for all others nothing is there."""

    def __init__(self, hub: Hub, *, opening: Startup, owner: LocalToken) -> None:
        self._hub = hub
        self._opening = opening
        self._owner = owner

    async def serve(self, request: HttpRequest) -> bool:
        """Answer a request of the owner; return false if it is none."""
        path: str = request.scope["path"]
        if not path.startswith(_PLACE) or not self._owner.sent(request):
            return False
        await self._opening.wait()
        match request.method, path.removeprefix(_PLACE):
            case "GET", "servers":
                await request.respond_json(200, list(self._hub.servers.values()))
            case "GET", "tools":
                await request.respond_json(200, await anyio.to_thread.run_sync(self._tools))
            case "POST", "search":
                await self._search(request)
            case _:
                return False
        return True

    def _tools(self) -> bytes:
        shown = [
            {"tool": tool, "raw": raw_definition(self._hub, tool)}
            for tool in sorted(self._hub.registry.tools(), key=lambda it: it.name)
        ]
        return msgspec.json.encode(shown)

    async def _search(self, request: HttpRequest) -> None:
        try:
            wanted = msgspec.json.decode(await request.body(at_most=_LONGEST), type=Wanted)
            options: SearchOptions = msgspec.convert(wanted.options, SearchOptions)
            found = partial(self._hub.registry.search, wanted.text, **options)
            response = await anyio.to_thread.run_sync(found)
        except (InvalidQueryError, msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            await request.respond_json(400, {"error": str(error)})
            return
        await request.respond_json(200, msgspec.json.encode(response))
