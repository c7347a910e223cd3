"""The flow of a login, request by request: which token it sends, and where secrets may go."""

import base64
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import time
from typing import Any
from urllib.parse import parse_qsl

import anyio
import httpx2
import pytest
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

from pegboard.config.servers import OAuthConfig, ServerConfig
from pegboard.errors import ServerAuthenticationError
from pegboard.upstream.oauth.provider import oauth_provider
from pegboard.upstream.oauth.token_refresh import TokenRefresh
from pegboard.upstream.oauth.token_storage import FileTokenStorage, Login
from tests.upstream.http_servers import config_for
from tests.upstream.oauth_servers import ForeignStorage, metadata_of

URL = "https://tools.example/mcp"
GOOD, EVIL = "https://login.example", "https://evil.example"
SECRET = "the-secret-of-the-client"
ROBOT = OAuthConfig(flow="client_credentials", client_id="robot", client_secret=SECRET)
OURS = OAuthConfig(client_id="ours", client_secret=SECRET, login_timeout=5)


class Web:
    """A protected server and authorization servers, which answer without a network."""

    def __init__(self, *authorization_servers: str) -> None:
        self.authorization_servers = list(authorization_servers)
        self.metadata = {
            origin: metadata_of(
                origin,
                registration_endpoint=f"{origin}/register",
                authorization_response_iss_parameter_supported=True,
            ).model_dump(mode="json", exclude_none=True)
            for origin in (GOOD, EVIL)
        }
        self.sent: list[httpx2.Request] = []
        self.valid: set[str] = set()
        self.refreshes: dict[str, str] = {}
        self.refuses_tokens = False
        self.scope = ""

    def sent_to(self, origin: str) -> str:
        """All that an origin was told."""
        told = ""
        for request in self.sent:
            if str(request.url).startswith(origin):
                header = request.headers.get("authorization", "")
                if header.startswith("Basic "):
                    header = base64.b64decode(header[6:]).decode()
                told += f"{request.url} {header} {request.content.decode()}\n"
        return told

    def respond(self, request: httpx2.Request) -> httpx2.Response:
        # What was sent stays as it was, also if the request is sent again with another token.
        body = request.read()
        copied = httpx2.Request(request.method, request.url, headers=request.headers, content=body)
        self.sent.append(copied)
        status, answer = self._answer(copied)
        headers = {"www-authenticate": f"Bearer {self.scope}"} if status in (401, 403) else {}
        return httpx2.Response(status, json=answer, headers=headers, request=copied)

    def _answer(self, request: httpx2.Request) -> tuple[int, Any]:
        origin, path = f"https://{request.url.host}", request.url.path
        if str(request.url) == URL:
            valid = request.headers.get("authorization") in self.valid
            return (200, "done") if valid else (403 if self.scope else 401, None)
        if path.startswith("/.well-known/oauth-protected-resource") and self.authorization_servers:
            servers = self.authorization_servers
            return 200, {"resource": URL, "authorization_servers": servers}
        if path == "/.well-known/oauth-authorization-server" and origin in self.metadata:
            return 200, self.metadata[origin]
        if path == "/register":
            registered = {"client_id": f"at {origin}", "client_secret": f"minted by {origin}"}
            registered["token_endpoint_auth_method"] = "client_secret_post"
            return 201, registered
        if path == "/token" and not self.refuses_tokens:
            return self._tokens(origin, dict(parse_qsl(request.content.decode())))
        return (400 if path == "/token" else 404), {}

    def _tokens(self, origin: str, form: dict[str, str]) -> tuple[int, Any]:
        if form["grant_type"] == "refresh_token" and form["refresh_token"] not in self.refreshes:
            return 400, {"error": "invalid_grant"}
        self.refreshes.pop(form.get("refresh_token", ""), None)
        access, refresh = (f"{kind}-{len(self.sent)}" for kind in ("access", "refresh"))
        self.valid = {f"Bearer {access}"}
        self.refreshes[refresh] = origin
        return 200, {"access_token": access, "refresh_token": refresh, "expires_in": 3600}


def agree(url: str) -> bool:
    """Be the browser of a person who logs in at once."""
    page = httpx2.URL(url)
    issuer = f"{page.scheme}://{page.host}"
    answer = {"code": "a-code", "state": page.params["state"], "iss": issuer}
    with httpx2.Client(trust_env=False) as browser:
        return browser.get(page.params["redirect_uri"], params=answer).status_code == 200


def provider(storage: Any, oauth: OAuthConfig = OURS, url: str = URL) -> TokenRefresh:
    config: ServerConfig = config_for(url, oauth=oauth)
    return oauth_provider(config, storage=storage, open_browser=agree)


def request_of(method: str = "tools/call") -> httpx2.Request:
    return httpx2.Request("POST", URL, json={"jsonrpc": "2.0", "id": 1, "method": method})


async def through_flow(
    auth: TokenRefresh, web: Web, *, refusal: httpx2.Response | None = None
) -> httpx2.Response:
    """Send a request through the flow; its first response may be one that came before."""
    request = request_of()
    flow = auth.async_auth_flow(request)
    response = refusal
    with anyio.fail_after(10):
        try:
            outgoing = await anext(flow)
            while True:
                if outgoing is request and refusal is not None:
                    response, refusal = refusal, None
                else:
                    response = web.respond(outgoing)
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            assert response is not None
            return response
        finally:
            await flow.aclose()


async def call(auth: TokenRefresh, web: Web) -> int:
    """Send a request with the token at hand, and through the flow only if that is refused."""
    refusal = None
    if (header := auth.authorization()) is not None:
        refusal = web.respond(httpx2.Request("POST", URL, headers={"authorization": header}))
        if refusal.status_code not in (401, 403):
            return refusal.status_code
    return (await through_flow(auth, web, refusal=refusal)).status_code


@pytest.fixture
def storage(tmp_path: Path) -> FileTokenStorage:
    return FileTokenStorage(tmp_path / "tokens.json")


async def test_the_header_is_at_hand_while_the_token_is_valid(storage: FileTokenStorage) -> None:
    web, auth = Web(GOOD), provider(storage)
    assert auth.authorization() is None
    assert await call(auth, web) == 200
    assert auth.authorization() in web.valid
    count = len(web.sent)
    assert await call(auth, web) == 200
    assert len(web.sent) == count + 1
    login = await storage.get_login()
    await storage.set_login(login.model_copy(update={"expires_at": time() - 1}))
    late = provider(storage)
    assert await call(late, web) == 200
    assert [each for each in web.sent[count + 1 :] if each.url.path == "/token"]


@pytest.mark.parametrize("knows_request", [True, False])
async def test_calls_whose_refusals_came_before_share_one_refresh(
    storage: FileTokenStorage, knows_request: bool
) -> None:
    web, auth = Web(GOOD), provider(storage)
    assert await call(auth, web) == 200
    web.valid.clear()
    header = auth.authorization()
    assert header is not None
    refusals = [
        web.respond(httpx2.Request("POST", URL, headers={"authorization": header}))
        for _ in range(3)
    ]
    before = len(web.sent)
    for refusal in refusals:
        if not knows_request:
            refusal = httpx2.Response(401)  # noqa: PLW2901 - that is the case
        assert (await through_flow(auth, web, refusal=refusal)).status_code == 200
    refreshes = [each for each in web.sent[before:] if each.url.path == "/token"]
    assert len(refreshes) == (1 if knows_request else 3)


async def test_calls_whose_login_has_ended_say_so_and_the_next_one_logs_in(
    storage: FileTokenStorage,
) -> None:
    web, auth = Web(GOOD), provider(storage)
    assert await call(auth, web) == 200
    web.valid.clear()
    web.refreshes.clear()
    header = auth.authorization()
    assert header is not None
    refusals = [
        web.respond(httpx2.Request("POST", URL, headers={"authorization": header}))
        for _ in range(3)
    ]
    for refusal in refusals:
        with pytest.raises(ServerAuthenticationError, match="has expired"):
            await through_flow(auth, web, refusal=refusal)
    assert await call(auth, web) == 200


async def test_a_refused_token_that_was_only_read_is_refreshed_before_a_person_is_asked(
    storage: FileTokenStorage,
) -> None:
    web = Web(GOOD)
    assert await call(provider(storage), web) == 200
    web.valid.clear()

    def no_person(url: str) -> bool:
        raise AssertionError(url)

    auth = oauth_provider(config_for(URL, oauth=OURS), storage=storage, open_browser=no_person)
    assert await call(auth, web) == 200


async def test_a_server_that_wants_more_scopes_gets_a_login_with_those_of_before_and_more(
    storage: FileTokenStorage,
) -> None:
    web, pages = Web(GOOD), list[httpx2.URL]()
    web.metadata[GOOD]["scopes_supported"] = ["use"]

    def note(url: str) -> bool:
        pages.append(httpx2.URL(url))
        return agree(url)

    auth = oauth_provider(config_for(URL, oauth=OURS), storage=storage, open_browser=note)
    assert await call(auth, web) == 200
    web.valid.clear()
    web.scope = 'error="insufficient_scope", scope="more"'
    assert await call(auth, web) == 200
    assert [page.params["scope"] for page in pages] == ["use", "use more"]
    assert "refresh_token" not in web.sent_to(GOOD)


async def test_a_token_that_no_header_can_have_is_not_used(storage: FileTokenStorage) -> None:
    tokens = OAuthToken(access_token="a\r\nx-admin: yes")
    await storage.set_login(Login().with_tokens(tokens))
    web, auth = Web(), provider(storage, ROBOT)
    flow = auth.async_auth_flow(request := request_of())
    assert await anext(flow) is request
    assert "authorization" not in request.headers
    await flow.aclose()
    assert web.sent == []


Change = Callable[[Web], object]


def moves_to_another_issuer(web: Web) -> None:
    web.authorization_servers = [EVIL]


def moves_its_token_endpoint(web: Web) -> None:
    web.metadata[GOOD]["token_endpoint"] = f"{EVIL}/token"


def hides_its_metadata(web: Web) -> None:
    web.authorization_servers = []
    web.metadata["https://tools.example"] = web.metadata.pop(EVIL)
    web.metadata["https://tools.example"] |= metadata_of(
        "https://tools.example", token_endpoint=f"{EVIL}/token"
    ).model_dump(mode="json", exclude_none=True)


def publishes_nothing(web: Web) -> None:
    web.authorization_servers = []
    web.metadata.clear()


CHANGES: list[Change] = [
    moves_to_another_issuer,
    moves_its_token_endpoint,
    hides_its_metadata,
    publishes_nothing,
]


PLACES = [
    (change, is_foreign, restarts)
    for change in CHANGES
    for is_foreign in (False, True)
    for restarts in (False, True)
    # A storage of the SDK keeps the issuer, but not its token endpoint.
    if not (change is moves_its_token_endpoint and is_foreign and restarts)
]


@pytest.mark.parametrize("oauth", [ROBOT, OURS], ids=["robot", "person"])
@pytest.mark.parametrize(("change", "is_foreign", "restarts"), PLACES)
async def test_a_secret_goes_to_no_other_authorization_server_than_the_first(
    storage: FileTokenStorage, oauth: OAuthConfig, restarts: bool, is_foreign: bool, change: Change
) -> None:
    kept: Any = ForeignStorage() if is_foreign else storage
    web, auth = Web(GOOD), provider(kept, oauth)
    assert await call(auth, web) == 200
    assert SECRET in web.sent_to(GOOD)
    change(web)
    web.valid.clear()
    web.refreshes.clear()
    if restarts:
        auth = provider(kept, oauth)
    for _ in range(3):
        with suppress(ServerAuthenticationError):
            await call(auth, web)
    assert SECRET not in web.sent_to(EVIL) + web.sent_to("https://tools.example")


@pytest.mark.parametrize("oauth", [ROBOT, OURS], ids=["robot", "person"])
@pytest.mark.parametrize("change", [hides_its_metadata, publishes_nothing])
async def test_a_server_that_stops_naming_its_authorization_server_is_logged_in_to_as_before(
    storage: FileTokenStorage, oauth: OAuthConfig, change: Change
) -> None:
    web = Web(GOOD)
    assert await call(provider(storage, oauth), web) == 200
    await storage.set_login((await storage.get_login()).with_tokens(None))
    change(web)
    assert await call(provider(storage, oauth), web) == 200


@pytest.mark.parametrize("oauth", [ROBOT, OURS], ids=["robot", "person"])
@pytest.mark.parametrize("change", [moves_to_another_issuer, moves_its_token_endpoint])
async def test_a_login_with_another_authorization_server_is_stopped_in_words(
    storage: FileTokenStorage, oauth: OAuthConfig, change: Change
) -> None:
    web = Web(GOOD)
    assert await call(provider(storage, oauth), web) == 200
    await storage.set_login((await storage.get_login()).with_tokens(None))
    change(web)
    with pytest.raises(ServerAuthenticationError, match="belongs to another authorization server"):
        await call(provider(storage, oauth), web)


async def test_the_first_server_that_gets_a_secret_is_the_only_one_though_it_refuses_it(
    storage: FileTokenStorage,
) -> None:
    web = Web(GOOD)
    web.refuses_tokens = True
    with pytest.raises(ServerAuthenticationError, match="400"):
        await call(provider(storage, ROBOT), web)
    moves_to_another_issuer(web)
    web.refuses_tokens = False
    with pytest.raises(ServerAuthenticationError, match="another authorization server"):
        await call(provider(storage, ROBOT), web)
    assert SECRET not in web.sent_to(EVIL)


@pytest.mark.parametrize("oauth", [ROBOT, OURS], ids=["robot", "person"])
async def test_a_secret_of_the_configuration_is_not_stored(
    tmp_path: Path, oauth: OAuthConfig
) -> None:
    path = tmp_path / "tokens.json"
    assert await call(provider(FileTokenStorage(path), oauth), Web(GOOD)) == 200
    assert SECRET not in path.read_text("utf-8")


@pytest.mark.parametrize("oauth", [ROBOT, OURS], ids=["robot", "person"])
async def test_the_server_itself_does_not_get_the_secret_while_its_authorization_server_is_down(
    storage: FileTokenStorage, oauth: OAuthConfig
) -> None:
    web = Web(GOOD)
    web.metadata.clear()
    with pytest.raises(ServerAuthenticationError, match="no metadata"):
        await call(provider(storage, oauth), web)
    assert SECRET not in web.sent_to("https://")


@pytest.mark.parametrize(
    "endpoint", ["token_endpoint", "authorization_endpoint", "registration_endpoint"]
)
async def test_a_login_to_a_server_with_tls_never_goes_over_plain_http(
    storage: FileTokenStorage, endpoint: str
) -> None:
    web = Web(GOOD)
    web.metadata[GOOD][endpoint] = "http://login.example/token"
    for oauth in (ROBOT, OURS, OAuthConfig(login_timeout=5)):
        with pytest.raises(ServerAuthenticationError, match="plain HTTP"):
            await call(provider(storage, oauth), web)
    assert [each for each in web.sent if each.url.scheme == "http"] == []


async def test_of_several_authorization_servers_the_known_one_is_used(
    storage: FileTokenStorage,
) -> None:
    web = Web(GOOD)
    assert await call(provider(storage, ROBOT), web) == 200
    web.authorization_servers = [EVIL, GOOD]
    web.valid.clear()
    web.refreshes.clear()
    assert await call(provider(storage, ROBOT), web) == 200
    assert web.sent_to(EVIL) == ""


@pytest.mark.parametrize("is_foreign", [False, True])
async def test_a_client_that_registered_itself_registers_again_with_another_server(
    storage: FileTokenStorage, is_foreign: bool
) -> None:
    kept: Any = ForeignStorage() if is_foreign else storage
    web, oauth = Web(GOOD), OAuthConfig(login_timeout=5)
    auth = provider(kept, oauth)
    assert await call(auth, web) == 200
    first = set(web.refreshes)
    moves_to_another_issuer(web)
    web.valid.clear()
    web.refreshes.clear()
    with pytest.raises(ServerAuthenticationError, match="has expired"):
        await call(auth, web)
    assert await call(auth, web) == 200
    web.valid.clear()
    assert await call(auth, web) == 200
    told = web.sent_to(EVIL)
    assert f"minted+by+{EVIL.replace('://', '%3A%2F%2F')}" in told
    assert "minted+by+https%3A%2F%2Flogin" not in told
    assert not [token for token in first if token in told]


async def test_the_tokens_of_a_login_that_another_process_made_stay_with_its_server(
    storage: FileTokenStorage,
) -> None:
    oauth = OAuthConfig(login_timeout=5)
    web, auth = Web(GOOD), provider(storage, oauth)
    assert await call(auth, web) == 200
    other = Web(EVIL)
    stored = await storage.get_login()
    await storage.set_login(Login())
    assert await call(provider(storage, oauth), other) == 200
    theirs = await storage.get_login()
    assert theirs.tokens is not None
    assert stored.tokens is not None
    web.valid.clear()
    web.refreshes.update(other.refreshes)
    await storage.set_login(theirs.model_copy(update={"expires_at": time() - 1}))
    assert await call(auth, web) == 200
    assert str(theirs.tokens.refresh_token) not in web.sent_to(GOOD)
    assert str(theirs.tokens.refresh_token) in web.sent_to(EVIL)


async def test_a_refresh_token_of_an_unknown_authorization_server_is_sent_nowhere(
    storage: FileTokenStorage,
) -> None:
    login = Login(client=OAuthClientInformationFull(client_id="c", client_secret="minted-secret"))
    tokens = OAuthToken(access_token="old", refresh_token="the-refresh-token", expires_in=-5)
    web = Web(GOOD)
    foreign = ForeignStorage()
    foreign.tokens, foreign.client = tokens, login.client
    await storage.set_login(login.with_tokens(tokens))
    for kept in (storage, foreign):
        assert await call(provider(kept, OAuthConfig(login_timeout=5)), web) == 200
    told = web.sent_to("https://")
    assert "the-refresh-token" not in told
    assert "minted-secret" not in told


async def test_tenants_have_logins_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    config, web = config_for(URL, oauth=ROBOT), Web(GOOD)
    assert await call(oauth_provider(config, tenant="red"), web) == 200
    red = web.valid
    flow = oauth_provider(config, tenant="blue").async_auth_flow(request := request_of())
    assert await anext(flow) is request
    assert "authorization" not in request.headers
    await flow.aclose()
    again = oauth_provider(config, tenant="red").async_auth_flow(request := request_of())
    assert await anext(again) is request
    assert request.headers["authorization"] in red
    await again.aclose()
