"""Owner: the person whose process this is, known by a token that only a file of theirs holds."""

import hmac
import secrets

from pegboard.auth import credential_in
from pegboard.auth.settings import is_loopback
from pegboard.errors import AuthenticationFailedError
from pegboard.server.http_request import HttpRequest

__all__ = ["Owner"]


class Owner:
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
        except AuthenticationFailedError:
            return False
        given = (credential or "").encode("latin-1", "replace")
        return hmac.compare_digest(given, self.token.encode())
