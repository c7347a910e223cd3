"""Choose a package or address of an entry, and make the configuration of a server of it."""

import re
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec

from pegboard.config.approval import steers_runner
from pegboard.config.servers import HEADER_NAME, is_reserved_header
from pegboard.directory.input_values import (
    AskedValue,
    GivenValue,
    GivenValues,
    argument_name,
    asked_by,
    filled,
    is_flag,
    written,
)
from pegboard.directory.package_commands import command_of, why_not_runnable
from pegboard.directory.server_json import DirectoryEntry, Package, Remote, ValueInput
from pegboard.errors import UnsupportedPackageError
from pegboard.upstream.http.proxies import is_loopback

__all__ = ["Offer", "asked_values", "chosen_offer", "entry_for", "offers_of"]

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")
_IN_HOST = re.compile(r"[A-Za-z0-9.-]+")
_TRANSPORTS = {"streamable-http": "http", "sse": "sse"}
_ORDER = ("npm", "pypi", "remote", "oci", "nuget")


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """One way to use a server: a package, or an address."""

    kind: str
    """``npm``, ``pypi``, ``oci``, ``nuget``, ``mcpb`` or another kind of package; ``remote``."""
    package: Package | None = None
    remote: Remote | None = None
    problem: str = ""
    """Why it cannot be used; empty if it can."""


def offers_of(entry: DirectoryEntry) -> list[Offer]:
    """Return every offer of an entry, those that cannot be used as well."""
    packages = [
        Offer(kind=it.registry_type, package=it, problem=why_not_runnable(it) or _wrong_names(it))
        for it in entry.packages
    ]
    remotes = [Offer(kind="remote", remote=it, problem=_wrong_address(it)) for it in entry.remotes]
    return [*packages, *remotes]


def chosen_offer(
    entry: DirectoryEntry, kind: str | None = None, *, runners: Sequence[str] = ()
) -> Offer:
    """Return the offer of this kind, or the one that is used if no kind is named.

    Args:
        entry: whose offers.
        kind: the kind of the offer.
        runners: the kinds that can be run on this machine; they are preferred.

    Raises:
        UnsupportedPackageError: when there is none that can be used; the message says why.
    """
    offers = [it for it in offers_of(entry) if kind in (None, it.kind)]
    usable = [it for it in offers if not it.problem]
    if usable:
        # Streamable HTTP is what clients are to use; SSE is its predecessor.
        return min(usable, key=lambda it: (it.kind not in runners, _rank(it)))
    what = f"{entry.name} {entry.version}"
    if not offers:
        kinds = ", ".join(entry.kinds) or "nothing"
        about = f"as {kind!r}; it has {kinds}" if kind else "in any way: its entry has no package"
        raise UnsupportedPackageError(f"{what} is not offered {about}.")
    problems = "; ".join(dict.fromkeys(it.problem for it in offers))
    raise UnsupportedPackageError(f"{what} cannot be added: {problems}.")


def asked_values(offer: Offer) -> list[AskedValue]:
    """Return what a person may be asked for to use an offer, each name once."""
    found: dict[str, AskedValue] = {}
    for it in _asked_values(offer):
        found.setdefault(it.name, it)
    return list(found.values())


def entry_for(offer: Offer, given: GivenValues) -> dict[str, Any]:
    """Return the entry of the configuration for an offer, with the values that were given.

    Nothing of the registry is a variable in it: what looks like one is escaped.

    Raises:
        UnsupportedPackageError: when the offer cannot be used, or not with these values.
    """
    if offer.problem:
        raise UnsupportedPackageError(f"This cannot be used: {offer.problem}.")
    if offer.package is not None:
        return _package_entry(offer.package, given)
    assert offer.remote is not None
    return _remote_entry(offer.remote, given)


def _rank(offer: Offer) -> tuple[int, bool]:
    order = _ORDER.index(offer.kind) if offer.kind in _ORDER else len(_ORDER)
    return order, offer.remote is not None and offer.remote.type == "sse"


def _asked_values(offer: Offer) -> Iterator[AskedValue]:
    if offer.package is not None:
        for arguments in (offer.package.runtime_arguments, offer.package.package_arguments):
            for number, it in enumerate(arguments, 1):
                if not is_flag(it):
                    name = argument_name(it, number)
                    yield from asked_by(it, name, "argument", is_repeated=it.is_repeated)
        for it in offer.package.environment_variables:
            yield from asked_by(it, it.name, "environment variable")
    if offer.remote is not None:
        yield from asked_by(_address(offer.remote), "url", "address")
        for it in offer.remote.headers:
            yield from asked_by(it, it.name, "header")


def _package_entry(package: Package, given: GivenValues) -> dict[str, Any]:
    env: dict[str, str] = {}
    for it in package.environment_variables:
        for parts in filled(it, it.name, given):
            env[it.name] = written(parts)
    command = command_of(package, given, tuple(env))
    env |= command.env
    for name in env:
        _check_variable(name)
    entry: dict[str, Any] = {"command": command.command, "args": command.args}
    return entry | ({"env": env} if env else {})


def _remote_entry(remote: Remote, given: GivenValues) -> dict[str, Any]:
    texts = filled(_address(remote), "url", _quoted(remote.url, given))
    if not texts:
        raise UnsupportedPackageError(f"The address {remote.url!r} needs a value.")
    _check_own_part(remote, given)
    url = written(texts[0])
    headers: dict[str, str] = {}
    for it in remote.headers:
        for parts in filled(it, it.name, given):
            headers[it.name] = written(parts)
    entry: dict[str, Any] = {"type": _TRANSPORTS[remote.type], "url": url}
    return entry | ({"headers": headers} if headers else {})


def _check_own_part(remote: Remote, given: GivenValues) -> None:
    """Refuse an address that the entry's own values lead elsewhere than it seemed to lead.

    Raises:
        UnsupportedPackageError: when they do.
    """
    # Those of the person are checked apart; a digit can stand in a host, a port and a path.
    digits = {name: [GivenValue("1")] for name, values in given.items() if values}
    texts = filled(_address(remote), "url", digits)
    own = msgspec.structs.replace(remote, url="".join(it.text for it in texts[0]))
    if problem := _wrong_address(own):
        raise UnsupportedPackageError(f"The address {remote.url!r} cannot be used: {problem}.")


def _address(remote: Remote) -> ValueInput:
    return ValueInput(name="url", value=remote.url, variables=remote.variables, is_required=True)


def _quoted(url: str, given: GivenValues) -> dict[str, list[GivenValue]]:
    """Return the values as an address can have them: none leads to another host.

    Raises:
        UnsupportedPackageError: when one cannot be a part of a host.
    """
    host = url.partition("://")[2].partition("/")[0]
    found: dict[str, list[GivenValue]] = {}
    for name, values in given.items():
        quoted: list[GivenValue] = []
        for it in values:
            if f"{{{name}}}" in host and not it.is_reference and not _IN_HOST.fullmatch(it.text):
                problem = f"The value of {name!r} cannot be a part of a host name."
                raise UnsupportedPackageError(problem)
            text = it.text if it.is_reference else quote(it.text, safe="-._~")
            quoted.append(GivenValue(text, is_reference=it.is_reference))
        found[name] = quoted
    return found


def _wrong_names(package: Package) -> str:
    for it in package.environment_variables:
        try:
            _check_variable(it.name)
        except UnsupportedPackageError as error:
            return str(error).rstrip(".")
    return ""


def _check_variable(name: str) -> None:
    if not _VARIABLE.fullmatch(name):
        raise UnsupportedPackageError(f"{name[:80]!r} is not the name of an environment variable.")
    if steers_runner(name):
        raise UnsupportedPackageError(
            f"the environment variable {name} would change which program runs, or from where."
        )


def _wrong_address(remote: Remote) -> str:
    """Return why an address cannot be used; empty if it can."""
    if remote.type not in _TRANSPORTS:
        return f"addresses of the type {remote.type!r} are not supported"
    try:
        parts = urlsplit(remote.url)
        host = parts.hostname or ""
    except ValueError:
        return f"{remote.url!r} is no address"
    is_safe = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))
    if not host or not is_safe or "@" in parts.netloc or not remote.url.isprintable():
        return f"{remote.url!r} is no https address"
    for it in remote.headers:
        if not HEADER_NAME.fullmatch(it.name) or is_reserved_header(it.name):
            return f"{it.name[:80]!r} is no header that a server may ask for"
    return ""
