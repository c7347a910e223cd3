"""The ways in which a text is written where others show it."""

import json
import string
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

__all__ = ["encodings_of"]

_KEPT_IN_ADDRESSES = string.punctuation.translate(str.maketrans("", "", '"<>'))


def encodings_of(text: str) -> Iterator[str]:
    """Give the text as it is, in JSON, in JSON in JSON, in Python and in addresses."""
    yield text
    yield repr(text)[1:-1]
    for escaped in (_in_json(text), json.dumps(text, ensure_ascii=False)[1:-1]):
        yield escaped
        yield _in_json(escaped)
    for kept in ("", "/"):
        yield quote(text, safe=kept, errors="surrogatepass")
        yield quote_plus(text, safe=kept, errors="surrogatepass")
    # HTTP clients mend an address: they quote what must not stand there, and leave the rest.
    yield quote(text, safe=_KEPT_IN_ADDRESSES, errors="surrogatepass")


def _in_json(text: str) -> str:
    return json.dumps(text)[1:-1]
