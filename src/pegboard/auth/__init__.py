"""Who asks: credentials become principals, and principals keep within their limits."""

from pegboard.auth.api_keys import ApiKeys
from pegboard.auth.authenticator import (
    Authenticator,
    Door,
    KindOfCredential,
    OpenDoor,
    credential_in,
)
from pegboard.auth.key_record import ApiKey, IssuedKey, KeyGrant
from pegboard.auth.limits import CallLimits
from pegboard.auth.oauth import challenge, metadata_path, resource_metadata, scope_challenge
from pegboard.auth.open_authenticator import open_authenticator
from pegboard.auth.settings import AuthSettings, TokenIssuer, check_binding, load_auth_settings

__all__ = [
    "ApiKey",
    "ApiKeys",
    "AuthSettings",
    "Authenticator",
    "CallLimits",
    "Door",
    "IssuedKey",
    "KeyGrant",
    "KindOfCredential",
    "OpenDoor",
    "TokenIssuer",
    "challenge",
    "check_binding",
    "credential_in",
    "load_auth_settings",
    "metadata_path",
    "open_authenticator",
    "resource_metadata",
    "scope_challenge",
]
