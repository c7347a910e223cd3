"""Negotiation: find out which era and version a server speaks, and begin the session."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

import anyio
import msgspec

from pegboard.config import ServerConfig
from pegboard.errors import ProtocolError
from pegboard.upstream.connection import Greeting, Negotiated
from pegboard.upstream.messages.extensions import told_capabilities
from pegboard.upstream.messages.failures import FailedError
from pegboard.upstream.messages.jsonrpc import ServerRpcError
from pegboard.upstream.messages.protocol import (
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    HANDSHAKE_VERSIONS,
    LATEST_HANDSHAKE,
    LATEST_MODERN,
    MODERN_VERSIONS,
    PROTOCOL_VERSION,
    SERVER_INFO,
    UNSUPPORTED_PROTOCOL_VERSION,
    request_headers,
)
from pegboard.version import installed_version

__all__ = ["CLIENT", "negotiate"]

CLIENT: Mapping[str, str] = {"name": "pegboard", "version": installed_version()}
"""What servers are told of their client."""
MOST_INSTRUCTIONS = 100_000
"""The most characters of a server's instructions that are kept."""
_LONGEST_NAME = 200
DISCOVER_SECONDS = 10.0
"""How long a server may take for the question which era it speaks; then it is shaken hands with."""

Ask = Callable[[str, Mapping[str, Any], Mapping[str, str]], Awaitable[dict[str, Any]]]
"""Sends a request, by its method, parameters and headers, and returns its raw result."""


class _Info(msgspec.Struct):
    name: str = ""
    version: str | None = None


class _Initialized(msgspec.Struct, rename="camel"):
    protocol_version: str
    capabilities: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])
    server_info: _Info = msgspec.field(default_factory=_Info)
    instructions: str | None = None


class _Discovered(msgspec.Struct, rename="camel"):
    supported_versions: list[str]
    capabilities: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])
    instructions: str | None = None
    meta: dict[str, Any] | None = msgspec.field(default=None, name="_meta")


async def negotiate(
    ask: Ask, config: ServerConfig, *, greeting: Greeting, capabilities: Mapping[str, Any]
) -> Negotiated:
    """Return what a server says about itself, in the era that it speaks.

    Args:
        ask: sends a request to the server.
        config: the server; its ``protocol`` may name the era.
        greeting: whether to ask, to trust the configuration, or to begin with the handshake.
        capabilities: the capabilities of this client.

    Raises:
        ProtocolError: when the server speaks no version that we know.
        ServerRpcError: when it refuses.
        FailedError: when it does not answer.
    """
    if "legacy" in (greeting, config.protocol):
        return await _handshake(ask, config, capabilities)
    if config.protocol == "auto":
        return await _find_out(ask, config, capabilities)
    if greeting == "ask":
        try:
            return _negotiated(await _discover(ask, capabilities, config.protocol))
        except (ServerRpcError, msgspec.ValidationError, TimeoutError):
            # The configuration names this protocol, so the capabilities may stay unknown.
            pass
    return Negotiated(era="modern", version=config.protocol)


async def _find_out(ask: Ask, config: ServerConfig, capabilities: Mapping[str, Any]) -> Negotiated:
    """Ask for the modern era first; a server that does not know it is shaken hands with."""
    try:
        return await _modern(ask, capabilities)
    except ServerRpcError as error:
        # Every other refusal is that of a server that does not know the question.
        supported = _supported(error)
        if supported and not set(supported) & set(HANDSHAKE_VERSIONS):
            raise
    except FailedError as error:
        if error.failure.kind in ("not_sent", "busy", "unauthorized"):
            raise
    except (msgspec.ValidationError, TimeoutError):
        # Not the answer of a modern server.
        pass
    try:
        return await _handshake(ask, config, capabilities)
    except ServerRpcError as error:
        # A slow server may have taken the question for the beginning of a modern session.
        named = _mutual(_supported(error))
        if named is None:
            raise
    return await _modern(ask, capabilities, named)


async def _modern(
    ask: Ask, capabilities: Mapping[str, Any], version: str = LATEST_MODERN
) -> Negotiated:
    """Return what a modern server says; it may name another version that we know, too."""
    try:
        found = await _discover(ask, capabilities, version)
    except ServerRpcError as error:
        named = _mutual(_supported(error))
        if named is None:
            raise
        found = await _discover(ask, capabilities, named)
    if _mutual(found.supported_versions) is None:
        raise msgspec.ValidationError("It names no version of the modern era.")
    return _negotiated(found)


async def _discover(ask: Ask, capabilities: Mapping[str, Any], version: str) -> _Discovered:
    method = "server/discover"
    told = told_capabilities(capabilities)
    meta = {PROTOCOL_VERSION: version, CLIENT_INFO: CLIENT, CLIENT_CAPABILITIES: told}
    with anyio.fail_after(DISCOVER_SECONDS):
        raw = await ask(method, {"_meta": meta}, request_headers(version, method, {}))
    return msgspec.convert(raw, _Discovered)


async def _handshake(ask: Ask, config: ServerConfig, capabilities: Mapping[str, Any]) -> Negotiated:
    params = {
        "protocolVersion": LATEST_HANDSHAKE,
        "capabilities": capabilities,
        "clientInfo": CLIENT,
    }
    raw = await ask("initialize", params, {})
    try:
        said = msgspec.convert(raw, _Initialized)
    except msgspec.ValidationError as error:
        raise ProtocolError(
            f"Server {config.name!r} answered with something the protocol does not have: "
            f"{config.redact(str(error))}.",
            server=config.name,
        ) from error
    if said.protocol_version not in HANDSHAKE_VERSIONS:
        raise ProtocolError(
            f"Server {config.name!r} speaks an unknown protocol version: "
            f"{config.redact(said.protocol_version[:100])!r}.",
            server=config.name,
        )
    return Negotiated(
        era="legacy",
        version=said.protocol_version,
        server_name=said.server_info.name[:_LONGEST_NAME],
        server_version=(said.server_info.version or "")[:_LONGEST_NAME],
        instructions=(said.instructions or "")[:MOST_INSTRUCTIONS],
        capabilities=_offered(said.capabilities),
    )


def _negotiated(found: _Discovered) -> Negotiated:
    try:
        info = msgspec.convert((found.meta or {}).get(SERVER_INFO) or {}, _Info)
    except msgspec.ValidationError:
        # It is only shown.
        info = _Info()
    return Negotiated(
        era="modern",
        version=_mutual(found.supported_versions) or LATEST_MODERN,
        server_name=info.name[:_LONGEST_NAME],
        server_version=(info.version or "")[:_LONGEST_NAME],
        instructions=(found.instructions or "")[:MOST_INSTRUCTIONS],
        capabilities=_offered(found.capabilities),
    )


def _offered(capabilities: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in capabilities.items() if value is not None}


def _supported(error: ServerRpcError) -> list[str]:
    """Return the versions that a server names when it refuses ours."""
    data: object = error.data
    if error.code != UNSUPPORTED_PROTOCOL_VERSION or not isinstance(data, Mapping):
        return []
    found: object = cast("Mapping[str, object]", data).get("supported")
    if not isinstance(found, list):
        return []
    return [it for it in cast("list[object]", found) if isinstance(it, str)]


def _mutual(supported: list[str]) -> str | None:
    """Return the newest modern version that both sides speak."""
    return next((it for it in reversed(MODERN_VERSIONS) if it in supported), None)
