"""Values as plain JSON, looked at before they are sent.

What cannot be written, such as half of a pair of surrogates, would otherwise end the transport that
tries to write it, and with it the session of everybody.
"""

from collections.abc import Mapping
from typing import Any, cast

from pydantic_core import from_json, to_json

from pegboard.errors import UpstreamError

__all__ = ["plain_json", "sendable"]


def plain_json(value: object) -> Any:
    """Return a value as a server will read it; a number that JSON does not have becomes null.

    Raises:
        ValueError: when it cannot be written as JSON.
    """
    return from_json(to_json(value, inf_nan_mode="null", fallback=_as_dict))


def sendable(value: object, *, server: str) -> Any:
    """Return a value as plain JSON, to be sent to a server.

    Raises:
        UpstreamError: when it cannot be written as JSON.
    """
    try:
        return plain_json(value)
    except (ValueError, RecursionError) as error:
        raise UpstreamError(
            f"The request was not sent to server {server!r}: it cannot be written as JSON "
            f"({_reason(error)}).",
            server=server,
        ) from error


def _as_dict(value: Any) -> dict[Any, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"{type(value).__name__} is no value of JSON")
    return dict(cast("Mapping[Any, Any]", value))


def _reason(error: Exception) -> str:
    # Without what is to be written: it may be a secret, and cannot be shown either.
    cut_in_half = "surrogates not allowed" in str(error)
    return "half of a character in a text" if cut_in_half else "too deep, or no value of JSON"
