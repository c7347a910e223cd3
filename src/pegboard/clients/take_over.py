"""Planned servers written into our own file, their secrets moved out of it."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from pegboard.clients.import_plan import PlannedServer
from pegboard.clients.inputs import answer_inputs
from pegboard.config.kept_secrets import Keep, KeptSecret
from pegboard.config.move_secrets import move_secrets
from pegboard.config.servers_file import ServersFile

__all__ = ["Answers", "TakenOver", "take_over"]

Answers = Mapping[tuple[Path, str], str]
"""What a person answered to the question of a file, by the file and the id."""


class TakenOver(NamedTuple):
    """A server that is in our file now."""

    name: str
    kept: dict[str, KeptSecret]
    """Where the secret of a field is now."""
    left: tuple[str, ...]
    """Fields whose secret stands in plain text."""
    unanswered: tuple[str, ...]
    """Questions that nobody answered: each is an environment variable now."""


def take_over(
    file: ServersFile,
    plan: Iterable[PlannedServer],
    *,
    keep: Keep | None,
    answers: Answers | None = None,
) -> list[TakenOver]:
    """Put the servers that the plan writes into the file, which is not saved yet.

    Args:
        file: our own.
        plan: of `plan_import`.
        keep: how secrets are kept; ``None`` leaves them in the file.
        answers: to what VS Code would ask.

    Raises:
        ConfigError: when a secret cannot be kept.
    """
    return [
        _one(file, it, it.writes_as, keep, answers or {}) for it in plan if it.writes_as is not None
    ]


def _one(
    file: ServersFile, server: PlannedServer, name: str, keep: Keep | None, answers: Answers
) -> TakenOver:
    kept: dict[str, KeptSecret] = {}
    written: dict[str, str] = {}
    unanswered: list[str] = []
    for asked in server.inputs:
        answer = answers.get((server.path, asked.id)) or asked.default
        if answer is None:
            unanswered.append(asked.id)
        elif keep is not None and asked.is_secret:
            place = keep(f"{name}.{asked.id}", answer)
            written[asked.id] = place.reference
            kept[f"input:{asked.id}"] = place
        else:
            written[asked.id] = answer.replace("${", "$${")
    entry = answer_inputs(server.entry, written)
    left = server.secrets
    if keep is not None:
        entry, moved, left = move_secrets(name, entry, keep)
        kept |= moved
    file.put(name, entry)
    return TakenOver(name, kept, left, tuple(unanswered))
