"""LocalApi: the endpoints under ``/owner/`` for the commands of the user of this process."""

import hmac
import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, Literal

import anyio.to_thread
import msgspec
from anyio.lowlevel import checkpoint

from pegboard.auth import credential_in
from pegboard.auth.network_exposure import is_loopback
from pegboard.errors import InvalidQueryError, UnauthenticatedError
from pegboard.gateway.catalog.tool_list import raw_definition
from pegboard.hub import Hub
from pegboard.observe.call_entry import CallFilter
from pegboard.observe.call_files import CallFiles
from pegboard.policies.fair_share import LimitUse
from pegboard.reports.live_status import CallNumbers, LiveCosts, live_status
from pegboard.search import SearchOptions
from pegboard.server.http.console_entry import ConsoleEntry
from pegboard.server.http.request import HttpRequest
from pegboard.server.startup import Startup

__all__ = ["OWNER_PREFIX", "LocalApi", "LocalSearch", "LocalToken", "RefusedCall"]

OWNER_PREFIX = "/owner/"
_LONGEST = 64 * 1024


class LocalToken:
    """The token of this process, which only commands of the same user can read."""

    def __init__(self) -> None:
        self.token: str = f"pbo_{secrets.token_urlsafe(32)}"
        """The token, as `RunningInstance` holds it."""

    def sent(self, request: HttpRequest) -> bool:
        """Tell whether a request has the token, and comes from this machine."""
        authorization = request.headers.get("authorization")
        if authorization is None or not is_loopback(request.source):
            return False
        if request.has_twice("authorization"):
            return False
        try:
            credential = credential_in(authorization)
        except UnauthenticatedError:
            return False
        given = (credential or "").encode("latin-1", "replace")
        return hmac.compare_digest(given, self.token.encode())


class LocalSearch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of a search request."""

    text: str
    options: dict[str, Any] = {}


class RefusedCall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A call that a command refused by itself, because the gateway has no such tool."""

    tool: Annotated[str, msgspec.Meta(min_length=1, max_length=512)]
    code: Literal["not_found", "server_unavailable"]


class LocalApi:
    """Serves ``/owner/`` to requests with the local token; for others the path does not exist."""

    def __init__(  # noqa: PLR0913 - each is asked by another path
        self,
        hub: Hub,
        *,
        startup: Startup,
        local_token: LocalToken,
        limits: Callable[[], Sequence[LimitUse]] = lambda: (),
        calls: CallFiles | None = None,
        numbers: Callable[[], CallNumbers] = dict,
        on_refused: Callable[[str, str], object] = lambda _tool, _code: None,
        console: ConsoleEntry | None = None,
        learn_skills: Callable[[], Awaitable[None]] = checkpoint,
    ) -> None:
        self._hub = hub
        self._learn_skills = learn_skills
        self._calls = calls
        self._numbers = numbers
        self._on_refused = on_refused
        self._console = console
        self._posts = {
            "calls": self._find_calls,
            "calls/written": self._write_calls,
            "calls/refused": self._note_refused,
            "console": self._link_to_console,
            "search": self._search,
        }
        self._limits = limits
        self._startup = startup
        self._local_token = local_token
        self._costs = LiveCosts(hub)

    async def serve(self, request: HttpRequest) -> bool:
        """Serve a request of the owner; return false if it is another request."""
        path: str = request.scope["path"]
        if not path.startswith(OWNER_PREFIX) or not self._local_token.sent(request):
            return False
        await self._startup.wait()
        match request.method, path.removeprefix(OWNER_PREFIX):
            case "GET", "servers":
                await request.respond_json(200, list(self._hub.servers.values()))
            case "GET", "limits":
                await request.respond_json(200, msgspec.json.encode(self._limits()))
            case "GET", "tools":
                await request.respond_json(200, await anyio.to_thread.run_sync(self._tools))
            case "GET", "status":
                await request.respond_json(200, await anyio.to_thread.run_sync(self._status))
            case "POST", what if what in self._posts:
                await self._posts[what](request)
            case _:
                return False
        return True

    def _tools(self) -> bytes:
        shown = [
            {"tool": tool, "raw": raw_definition(self._hub, tool)}
            for tool in sorted(self._hub.registry.tools(), key=lambda it: it.name)
        ]
        return msgspec.json.encode(shown)

    def _status(self) -> bytes:
        return msgspec.json.encode(live_status(self._hub, self._costs, self._numbers()))

    async def _write_calls(self, request: HttpRequest) -> None:
        # So that another process can count those that are over.
        if self._calls is not None:
            await anyio.to_thread.run_sync(self._calls.flush)
        await request.respond_json(200, {})

    async def _find_calls(self, request: HttpRequest) -> None:
        try:
            wanted = msgspec.json.decode(await request.body(at_most=_LONGEST), type=CallFilter)
            found = None
            if self._calls is not None:
                found = await anyio.to_thread.run_sync(self._calls.find, wanted)
        except (OSError, msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            await request.respond_json(400, {"error": str(error)})
            return
        await request.respond_json(200, msgspec.json.encode({"calls": found}))

    async def _link_to_console(self, request: HttpRequest) -> None:
        link = None if self._console is None else await self._console.make_link()
        await request.respond_json(200, {"path": link})

    async def _note_refused(self, request: HttpRequest) -> None:
        try:
            body = await request.body(at_most=_LONGEST)
            refused = msgspec.json.decode(body, type=RefusedCall)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            await request.respond_json(400, {"error": str(error)})
            return
        self._on_refused(refused.tool, refused.code)
        await request.respond_json(200, {})

    async def _search(self, request: HttpRequest) -> None:
        try:
            wanted = msgspec.json.decode(await request.body(at_most=_LONGEST), type=LocalSearch)
            options: SearchOptions = msgspec.convert(wanted.options, SearchOptions)
            if options.get("documents", False):
                await self._learn_skills()
            response = await self._hub.search(wanted.text, **options)
        except (InvalidQueryError, msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            await request.respond_json(400, {"error": str(error)})
            return
        await request.respond_json(200, msgspec.json.encode(response))
