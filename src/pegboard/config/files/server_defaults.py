"""Read the section `defaults` of a file: what the processes of all its servers receive."""

from collections.abc import Mapping
from typing import Annotated, cast

import msgspec
from msgspec import Meta

from pegboard.config.files.entry import Scalar
from pegboard.config.files.jsonc import Document
from pegboard.config.problems import Problem, ProblemKind, Severity, shown_path
from pegboard.config.secrets.plain_secrets import plain_secrets
from pegboard.model.tool_names import nearest_names

__all__ = ["DEFAULTS", "ServerDefaults", "read_defaults"]

DEFAULTS = "defaults"
"""The name of the section."""


class ServerDefaults(msgspec.Struct, frozen=True, kw_only=True):
    """What all servers of the file receive that run as a process."""

    env: Annotated[
        dict[str, Scalar | None] | None,
        Meta(description="Environment variables of every program; an entry's own override them."),
    ] = None
    inherit_network: Annotated[
        bool | None,
        Meta(
            description="`false` hands no program the variables for certificates, proxies and "
            "package indexes, unless its entry says `true`."
        ),
    ] = None


def read_defaults(
    content: object, document: Document | None = None
) -> tuple[ServerDefaults, tuple[Problem, ...]]:
    """Return the section, with its variables as they are written, and what is wrong with it."""
    section: object = None
    if isinstance(content, Mapping):
        section = cast("Mapping[str, object]", content).get(DEFAULTS)
    if section is None:
        return ServerDefaults(), ()
    problems: list[Problem] = []

    def report(
        message: str,
        *path: str | int,
        severity: Severity = "error",
        kind: ProblemKind = "entry",
    ) -> None:
        node = None if document is None else document.root.find((DEFAULTS, *path))
        place = None if document is None or node is None else document.place(node.start)
        line, column = (None, None) if place is None else (place.line, place.column)
        problem = Problem(message=message, line=line, column=column, severity=severity, kind=kind)
        problems.append(problem)

    found = ServerDefaults()
    try:
        found = msgspec.convert(section, ServerDefaults)
    except msgspec.ValidationError as error:
        words = str(error).replace(" | null", "").replace("`$", f"`{DEFAULTS}")
        report(f"`{DEFAULTS}` cannot be used: {words}.")
    members: Mapping[str, object] = {}
    if isinstance(section, Mapping):
        members = cast("Mapping[str, object]", section)
    known = [it.name for it in msgspec.structs.fields(ServerDefaults)]
    for key in members:
        if key not in known:
            near = nearest_names(key, known, limit=1)
            hint = f" Did you mean `{near[0]}`?" if near else ""
            what = f"`{DEFAULTS}` has an unknown field `{shown_path((key,))}`.{hint}"
            report(what, key, severity="warning", kind="unknown_field")
    for secret in plain_secrets(DEFAULTS, {"env": found.env or {}}):
        what = (
            f"`{DEFAULTS}` has a secret in plain text in `{shown_path(secret.path)}`. Write "
            f'"${{{secret.variable}}}" in its place, and set {secret.variable} in the environment.'
        )
        report(what, *secret.path, severity="warning", kind="plain_secret")
    return found, tuple(problems)
