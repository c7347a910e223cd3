"""Authentication: API keys, JWTs and plug-ins identify the caller, and call limits apply to it."""

from pegboard.auth.api_keys import ApiKeys
from pegboard.auth.authenticator import (
    AnonymousAuthenticator,
    Authenticator,
    CredentialAuthenticator,
    CredentialVerifier,
    credential_in,
    open_authenticator,
)
from pegboard.auth.key_record import ApiKey, IssuedKey, KeyGrant
from pegboard.auth.network_exposure import check_binding
from pegboard.auth.oauth import challenge, metadata_path, resource_metadata, scope_challenge
from pegboard.auth.rate_limits import CallLimits
from pegboard.auth.settings import AuthSettings, TokenIssuer, load_auth_settings
from pegboard.auth.shared_limits import SharedLimits

__all__ = [
    "AnonymousAuthenticator",
    "ApiKey",
    "ApiKeys",
    "AuthSettings",
    "Authenticator",
    "CallLimits",
    "CredentialAuthenticator",
    "CredentialVerifier",
    "IssuedKey",
    "KeyGrant",
    "SharedLimits",
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
