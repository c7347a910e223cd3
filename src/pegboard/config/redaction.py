"""Redaction: replace the credentials of a server by asterisks in everything that is shown."""

import os
import re
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Protocol

from pegboard.config.network_variables import network_variables
from pegboard.config.secret_detection import (
    argument_secrets,
    encodings_of,
    is_harmless,
    parts_of_secret,
    proxy_secrets,
    secrets_in,
    url_secrets,
    words_of_command,
)

__all__ = [
    "HIDDEN",
    "environment_read_once",
    "hidden_forms",
    "inherited_secrets",
    "redact",
    "redacted_command_line",
]

HIDDEN = "***"
_SHORTEST_SECRET = 6


class _OAuthSecrets(Protocol):
    @property
    def client_secret(self) -> str | None: ...


class _TlsSecrets(Protocol):
    @property
    def client_key_password(self) -> str | None: ...


class _ServerSecrets(Protocol):
    """The parts of a `ServerConfig` that may hold secrets."""

    @property
    def command(self) -> str | None: ...
    @property
    def args(self) -> Sequence[str]: ...
    @property
    def env(self) -> Mapping[str, str]: ...
    @property
    def shared_env(self) -> Mapping[str, str]: ...
    @property
    def inherit_network(self) -> bool: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def secrets(self) -> Iterable[str]: ...
    @property
    def bearer_token(self) -> str | None: ...
    @property
    def url(self) -> str | None: ...
    @property
    def oauth(self) -> _OAuthSecrets | None: ...
    @property
    def tls(self) -> _TlsSecrets | None: ...
    @property
    def proxy(self) -> str | None: ...


def redact(text: str, hidden: Iterable[str]) -> str:
    """Return the text with each of the hidden forms replaced."""
    for secret in hidden:
        text = text.replace(secret, HIDDEN)
    return text


_INHERITED: ContextVar[frozenset[str] | None] = ContextVar("inherited", default=None)


@contextmanager
def environment_read_once() -> Generator[None]:
    """Look for the secrets of the environment once, instead of for each server in the block."""
    token = _INHERITED.set(inherited_secrets())
    try:
        yield
    finally:
        _INHERITED.reset(token)


def inherited_secrets() -> frozenset[str]:
    """Return the secrets in what programs inherit to reach the network, such as a proxy's."""
    return _secrets_of(tuple(network_variables(os.environ).items()))


@lru_cache(maxsize=4)
def _secrets_of(inherited: tuple[tuple[str, str], ...]) -> frozenset[str]:
    proxies = [it for name, it in inherited if name.upper().endswith("_PROXY")]
    found = {it.value for _, text in inherited for it in secrets_in(text, "")}
    return frozenset(found | {it.value for text in proxies for it in proxy_secrets(text)})


def hidden_forms(config: _ServerSecrets) -> list[str]:
    """Return every form in which a secret of a server may appear, the longest first."""
    secret = {*config.headers.values(), *config.secrets, config.bearer_token or ""}
    env = (*config.shared_env.items(), *config.env.items())
    named = (*env, *config.headers.items(), *(("", it) for it in config.secrets))
    secret |= {it.value for name, value in named for it in secrets_in(value, name)}
    secret |= _argument_secrets(config)
    found = {part for value in secret for part in parts_of_secret(value)}
    found |= {value for _, value in env}
    # The output of a process is redacted line by line.
    found |= {line.strip() for _, value in env for line in value.split("\n")}
    if config.command and config.inherit_network:
        # The program may print the address of the proxy or the index that it was given.
        known = _INHERITED.get()
        found |= inherited_secrets() if known is None else known
    if config.oauth is not None and config.oauth.client_secret:
        found.add(config.oauth.client_secret)
    if config.tls is not None and config.tls.client_key_password:
        found.add(config.tls.client_key_password)
    for secrets_of in (url_secrets, proxy_secrets) if config.proxy else ():
        found |= {suspect.value for suspect in secrets_of(config.proxy or "")}
    if config.url:
        found |= {suspect.value for suspect in url_secrets(config.url)}
        for pair in re.split("[?&#]", config.url)[1:]:
            name, has_name, value = pair.partition("=")
            found.add(value if has_name else name)
    long_enough = (it for it in found if len(it) >= _SHORTEST_SECRET)
    written = {form for secret in long_enough for form in encodings_of(secret)}
    # The longest come first: one secret may be part of another.
    return sorted(written, key=len, reverse=True)


def redacted_command_line(config: _ServerSecrets, hidden: Iterable[str]) -> str:
    """Return the command and arguments of a server without its secrets, short ones included."""
    shown = redact(" ".join((config.command or "", *config.args)), hidden)
    for secret in sorted(_argument_secrets(config), key=len, reverse=True):
        # A text this short may be part of any word, but next to its flag it is a secret.
        if 0 < len(secret) < _SHORTEST_SECRET and secret not in HIDDEN:
            forms = "|".join(re.escape(form) for form in {*encodings_of(secret)})
            shown = re.sub(rf"(?<!\w)(?:{forms})(?!\w)", HIDDEN, shown)
    return shown


def _argument_secrets(config: _ServerSecrets) -> frozenset[str]:
    return _secrets_in_line(config.command or "", tuple(config.args))


@lru_cache(maxsize=4)
def _secrets_in_line(command: str, args: tuple[str, ...]) -> frozenset[str]:
    # Looked for twice in a row: in all texts, and in the command line.
    if is_harmless((command, *args)):
        return frozenset()
    line = (*words_of_command(command), *args)
    return frozenset(suspect.value for _, suspect in argument_secrets(line))
