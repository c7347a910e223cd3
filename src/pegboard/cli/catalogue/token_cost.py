"""Tokens that a model reads for a tool definition: estimated, or counted with a tokenizer."""

import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeAlias

import msgspec

from pegboard.errors import ConfigError
from pegboard.errors.extras import install_extra
from pegboard.search.budget import tokens_of

__all__ = ["Cost", "counting", "estimated"]

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
