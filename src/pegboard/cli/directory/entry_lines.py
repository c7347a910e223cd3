"""Show an entry of an MCP registry: who publishes it, what would run, and what it is given."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pegboard.directory import DirectoryEntry
from pegboard.directory.input_values import AskedValue
from pegboard.directory.package_choice import Offer

__all__ = ["command_line", "describe_entry", "describe_values"]

_WIDTH = 14


def describe_entry(entry: DirectoryEntry, offer: Offer, *, registry: str) -> Iterator[str]:
    """Give the lines about an entry, as far as it tells."""
    yield f"{entry.name} {entry.version}: {entry.description or entry.title or 'no description'}"
    told = {
        "Publisher": f"{entry.publisher} (says the registry, which does not check the code)",
        "Registry": registry,
        "Published": entry.published_at,
        "Repository": entry.repository or "not stated",
        "Website": entry.website,
        "Licence": entry.licence or "not stated in the entry",
        "Status": "" if entry.status == "active" else f"{entry.status} {entry.status_message}",
        "Packages": _packages(offer),
    }
    for name, words in told.items():
        if words:
            yield _labelled(name, words)
    if len(entry.kinds) > 1:
        others = ", ".join(it for it in entry.kinds if it != offer.kind)
        yield _labelled("Also as", f"{others} (`--package`)")


def command_line(entry: Mapping[str, Any]) -> str:
    """Return what an entry of the configuration runs, or the address that it reaches."""
    if "url" in entry:
        words = str(entry["url"])
    else:
        words = shlex.join([entry["command"], *entry.get("args", ())])
    return words.replace("$${", "${")


def describe_values(
    entry: Mapping[str, Any], asked: Sequence[AskedValue], given: Sequence[str]
) -> Iterator[str]:
    """Give the lines about what would run, and what it is given; no value is shown."""
    yield _labelled("Reaches" if "url" in entry else "Runs", command_line(entry))
    for field, label in (("env", "Environment"), ("headers", "Headers")):
        names = list(entry.get(field, ()))
        if names:
            yield _labelled(label, ", ".join(names))
    left = [it.name for it in asked if it.name not in given and it.default is None]
    if left:
        yield _labelled("Left out", f"{', '.join(left)} (`--env NAME=VALUE` gives them)")


def _packages(offer: Offer) -> str:
    base = "" if offer.package is None else offer.package.registry_base_url
    if not base or offer.kind == "oci":
        return ""
    return f"the entry names {base}; what this machine is configured with is used"


def _labelled(name: str, words: str) -> str:
    shown = "".join(it if it.isprintable() else repr(it)[1:-1] for it in words)
    return f"  {name + ':':<{_WIDTH}}{shown}"
