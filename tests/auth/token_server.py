"""A real authorization server on loopback: Authlib issues the tokens, RSA and EC keys sign them."""

# What Authlib's stubs say of its classes is narrower than how it uses them.
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false

import json
import threading
import time
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, cast
from urllib.parse import parse_qsl
from urllib.request import Request, urlopen

import jwt as pyjwt
from authlib.oauth2.rfc6749 import AuthorizationServer, ClientMixin, OAuth2Request, grants
from authlib.oauth2.rfc6749.requests import BasicOAuth2Payload
from authlib.oauth2.rfc9068 import JWTBearerTokenGenerator
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, OctKey, OKPKey, RSAKey

__all__ = ["Key", "TokenServer", "token_server"]

Key = RSAKey | ECKey | OKPKey | OctKey
RESOURCE = "https://tools.example.com/mcp"


class Client(ClientMixin):
    """A program that may ask for tokens; its id is also its secret."""

    def __init__(self, client_id: str) -> None:
        self.client_id = client_id

    def get_client_id(self) -> str:
        return self.client_id

    def get_allowed_scope(self, scope: str) -> str:
        return scope

    def check_client_secret(self, client_secret: str) -> bool:
        return client_secret == self.client_id

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return method == "client_secret_post"

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type == "client_credentials"


class Grant(grants.ClientCredentialsGrant):
    TOKEN_ENDPOINT_AUTH_METHODS: ClassVar[list[str]] = ["client_secret_post"]


class AskedForToken(OAuth2Request):
    """A form that was sent, as Authlib reads it."""

    def __init__(self, url: str, form: Mapping[str, str]) -> None:
        # Authlib asks for TLS; the real wire here is loopback.
        super().__init__("POST", url.replace("http:", "https:"))
        self.payload = BasicOAuth2Payload(dict(form))
        self._form = dict(form)

    @property
    def form(self) -> dict[str, str]:
        return self._form

    @property
    def args(self) -> dict[str, str]:
        return {}


class Issuing(AuthorizationServer):
    """Authlib's server, without a web framework."""

    def query_client(self, client_id: str) -> Client:
        return Client(client_id)

    def save_token(self, token: object, request: object) -> None:
        """Forget it: it is signed, and carries all that is known."""

    def create_oauth2_request(self, request: AskedForToken) -> AskedForToken:
        return request

    def handle_response(self, status: int, body: object, headers: object) -> tuple[int, object]:
        return status, body

    def send_signal(self, name: str, *args: object, **kwargs: object) -> None:
        """Nobody listens."""


class TokenServer:
    """Its address is ``issuer``; ``fetches`` counts what was asked for."""

    def __init__(self, port: int) -> None:
        self.issuer = f"http://127.0.0.1:{port}"
        self.keys: list[Key] = [new_key("RSA"), new_key("EC")]
        self.fetches: Counter[str] = Counter()
        self.answers: dict[str, bytes | None] = {}
        """What is answered at a path instead; ``None`` for an error."""
        self.is_open = threading.Event()
        """While it is not set, nobody gets an answer."""
        self.is_open.set()

    def token(self, scope: str = "pegboard:call", client: str = "agent", alg: str = "RS256") -> str:
        """Ask for a token as a client does, over HTTP."""
        form = f"grant_type=client_credentials&client_id={client}&client_secret={client}"
        form += f"&scope={scope}&alg={alg}"
        request = Request(f"{self.issuer}/token", data=form.encode())
        with urlopen(request, timeout=10) as response:
            return json.load(response)["access_token"]

    def sign(
        self, key: Key | None = None, header: Mapping[str, Any] | None = None, **claims: Any
    ) -> str:
        """Sign what no honest server would; a claim that is ``None`` is left out."""
        now = int(time.time())
        honest = {"iss": self.issuer, "aud": RESOURCE, "sub": "agent", "iat": now, "exp": now + 600}
        said = {**honest, "scope": "pegboard:call", **claims}
        key = key or self.keys[0]
        alg = {"RSA": "RS256", "EC": "ES256", "OKP": "EdDSA", "oct": "HS256"}[key.key_type]
        names: dict[str, Any] = {"alg": alg, "kid": key.kid, **(header or {})}
        names = {name: it for name, it in names.items() if it is not None}
        said = {name: it for name, it in said.items() if it is not None}
        if isinstance(key, OKPKey):
            # joserfc warns of the name that everybody uses for it still.
            return pyjwt.encode(said, key.as_pem(private=True).decode(), "EdDSA", headers=names)
        return jwt.encode(names, said, key, algorithms=[names["alg"]])

    def issue(self, form: Mapping[str, str]) -> tuple[int, object]:
        alg = form.get("alg", "RS256")
        keys = KeySet([it for it in self.keys if it.key_type == _KEY_OF[alg]])

        class Generator(JWTBearerTokenGenerator):
            def get_jwks(self) -> KeySet:
                return keys

            def get_audiences(self, client: Client, user: object, scope: str) -> str:
                return form.get("resource", RESOURCE)

        server = Issuing()
        server.register_grant(Grant)
        server.register_token_generator("default", Generator(self.issuer, alg))
        asked = AskedForToken(f"{self.issuer}/token", form)
        return cast("tuple[int, object]", server.create_token_response(asked))

    def document(self, path: str) -> bytes | None:
        if path in self.answers:
            return self.answers[path]
        match path:
            case "/.well-known/oauth-authorization-server":
                found: object = {
                    "issuer": self.issuer,
                    "jwks_uri": f"{self.issuer}/jwks",
                    "token_endpoint": f"{self.issuer}/token",
                    "authorization_endpoint": f"{self.issuer}/authorize",
                    "response_types_supported": ["code"],
                }
            case "/jwks":
                found = {"keys": [it.as_dict(private=False) for it in self.keys]}
            case _:
                return None
        return json.dumps(found).encode()


_KEY_OF = {"RS256": "RSA", "PS256": "RSA", "ES256": "EC", "EdDSA": "OKP"}


def new_key(kind: str) -> Key:
    match kind:
        case "RSA":
            return RSAKey.generate_key(2048, auto_kid=True)
        case "EC":
            return ECKey.generate_key("P-256", auto_kid=True)
        case _:
            return OKPKey.generate_key("Ed25519", auto_kid=True)


@contextmanager
def token_server() -> Generator[TokenServer]:
    """Run one on a port of its own."""

    class GatewayPort(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            running.is_open.wait(30)
            running.fetches[self.path] += 1
            found = running.document(self.path)
            if found is not None and found.startswith(b"Location: "):
                self.send_response(302)
                self.send_header("Location", found.decode().removeprefix("Location: "))
                self.end_headers()
                return
            self.respond(404 if found is None else 200, found or b"{}")

        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers["Content-Length"])).decode()
            status, body = running.issue(dict(parse_qsl(text)))
            self.respond(status, json.dumps(body).encode())

        def respond(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    web = ThreadingHTTPServer(("127.0.0.1", 0), GatewayPort)
    web.daemon_threads = True
    running = TokenServer(web.server_address[1])
    thread = threading.Thread(target=web.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield running
    finally:
        running.is_open.set()
        web.shutdown()
        thread.join()
        web.server_close()
