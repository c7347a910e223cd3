"""Tokens: how many a model reads, estimated at once, or counted with a tokenizer."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, TypeAlias

import anyio
import msgspec

from pegboard.errors import ConfigError
from pegboard.errors.extras import install_extra
from pegboard.gateway import Client, ClientRequest, Face, Gateway, GatewayOptions
from pegboard.hub import Hub
from pegboard.model.principal import LOCAL
from pegboard.search.budget import tokens_of
from pegboard.server.settings import load_gateway_settings

__all__ = ["Cost", "counting", "estimated", "gateway_options", "own_definitions"]


def gateway_options(config: str | None) -> GatewayOptions:
    """Return how the gateway of a configuration would be set up.

    Raises:
        ConfigError: when its settings cannot be used.
    """
    return load_gateway_settings(config).options


def own_definitions(options: GatewayOptions) -> Sequence[Mapping[str, Any]]:
    """Return the tools that the gateway itself has on its search surface, as it lists them."""
    return anyio.run(_listed, options)


class _NobodyListens:
    async def notify(self, method: str, params: Mapping[str, Any]) -> None: ...

    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        raise AssertionError("A list asks nobody anything.")


async def _listed(options: GatewayOptions) -> Sequence[Mapping[str, Any]]:
    client = Client(
        principal=LOCAL, era="modern", version="2026-07-28", face=Face(surface="search")
    )
    asked = ClientRequest(method="tools/list", params={}, client=client, channel=_NobodyListens())
    async with Hub([]) as hub, Gateway(hub, options) as gateway:
        return (await gateway.respond(asked))["tools"]


_ENCODING = "o200k_base"

Cost: TypeAlias = Callable[[object], int]
"""Returns the tokens of a definition as a client hands it to a model: JSON on one line."""


def estimated(definition: object) -> int:
    """Return about how many tokens a definition has, at four letters a token."""
    return tokens_of(_written(definition))


def counting() -> Cost:
    """Return what counts tokens with a tokenizer of OpenAI's; it takes seconds to load.

    Raises:
        ConfigError: when it is not installed.
    """
    try:
        with warnings.catch_warnings():
            # It reads its tables in a way that Python frowns at.
            warnings.simplefilter("ignore", DeprecationWarning)
            encoding: Any = import_module("bpe_openai").get_encoding(_ENCODING)
    except ImportError as error:
        raise ConfigError(
            f"Counting needs a tokenizer: `{install_extra('tokens')}`. Without `--count`, "
            "tokens are estimated."
        ) from error
    return lambda definition: len(encoding.encode_ordinary(_written(definition)))


def _written(definition: object) -> str:
    return msgspec.json.encode(definition).decode()
