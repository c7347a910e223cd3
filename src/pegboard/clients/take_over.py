"""Write imported servers into our own file, and move their secrets out of it."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

import msgspec

from pegboard.clients.found_servers import AskedInput, answer_inputs, inputs_used
from pegboard.clients.import_plan import PlannedServer
from pegboard.config.files.servers_file import ServersFile
from pegboard.config.secrets.kept_secrets import Keep, KeptSecret
from pegboard.config.secrets.move_secrets import move_secrets
from pegboard.config.secrets.variables import input_variable

__all__ = ["Answers", "TakenOver", "answer_questions", "open_questions", "take_over"]

Answers = Mapping[tuple[Path, str], str]
"""The user's answers to inputs, by the file and the id of the input."""


class TakenOver(NamedTuple):
    """A server that was written into our file."""

    name: str
    kept: dict[str, KeptSecret]
    """Where the secret of each field is kept."""
    left: tuple[str, ...]
    """Fields whose secret stays in plain text."""
    unanswered: tuple[str, ...]
    """Inputs without an answer: each is an environment variable now."""


def take_over(
    file: ServersFile,
    plan: Iterable[PlannedServer],
    *,
    keep: Keep | None,
    answers: Answers | None = None,
) -> list[TakenOver]:
    """Put the servers of a plan into the file, without saving it.

    Args:
        file: our own file.
        plan: the result of `plan_import`.
        keep: keeps secrets outside of the file; ``None`` leaves them in the file.
        answers: the answers to the inputs of VS Code.

    Raises:
        ConfigError: when a secret cannot be kept.
    """
    entries: dict[str, Mapping[str, Any]] = {}
    done: list[TakenOver] = []
    for server in plan:
        if server.writes_as is not None:
            taken, entries[server.writes_as] = _one(server, server.writes_as, keep, answers or {})
            done.append(taken)
    file.put_all(entries)
    return done


def open_questions(file: ServersFile, plan: Iterable[PlannedServer]) -> list[PlannedServer]:
    """Return the servers of our file whose inputs still have no answer.

    They were imported without a terminal, and the environment has no value for the inputs, either.

    Args:
        file: our own file.
        plan: the result of `plan_import`, which knows the inputs of the clients.
    """
    plan = list(plan)
    found: dict[str, PlannedServer] = {}
    replaced = {it.writes_as for it in plan}
    there = {name: it for name, it in file.entries.items() if name not in replaced}
    for server in plan:
        raw = there[server.same_as].value if server.same_as in there else None
        if server.same_as is None or not server.inputs or not isinstance(raw, Mapping):
            continue
        entry = cast("Mapping[str, Any]", raw)
        asked = [
            it
            for it in inputs_used(entry, server.inputs)
            if it.default is None and input_variable(it.id) not in os.environ
        ]
        if asked:
            still = msgspec.structs.replace(server, entry=entry, inputs=tuple(asked))
            found.setdefault(server.same_as, still)
    return list(found.values())


def answer_questions(
    file: ServersFile, waiting: Iterable[PlannedServer], *, keep: Keep | None, answers: Answers
) -> list[TakenOver]:
    """Put answers into the servers of our file that wait for them, without saving it.

    Args:
        file: our own file.
        waiting: the result of `open_questions`.
        keep: keeps secrets outside of the file; ``None`` writes them into the file.
        answers: the answers of the user.

    Raises:
        ConfigError: when a secret cannot be kept.
    """
    done: list[TakenOver] = []
    for server in waiting:
        name = server.same_as or server.name
        answered = _answered(name, server.path, server.inputs, keep, answers)
        for field, value in answer_inputs(server.entry, answered.written).items():
            if value != server.entry[field]:
                file.set_field(name, field, value)
        if answered.written:
            done.append(TakenOver(name, answered.kept, (), answered.unanswered))
    return done


class _Answered(NamedTuple):
    written: dict[str, str]
    """The text that replaces each input."""
    kept: dict[str, KeptSecret]
    unanswered: tuple[str, ...]


def _answered(
    name: str, path: Path, inputs: Iterable[AskedInput], keep: Keep | None, answers: Answers
) -> _Answered:
    kept: dict[str, KeptSecret] = {}
    written: dict[str, str] = {}
    unanswered: list[str] = []
    for asked in inputs:
        answer = answers.get((path, asked.id)) or asked.default
        if answer is None:
            unanswered.append(asked.id)
        elif keep is not None and asked.is_secret:
            place = keep(f"{name}.{asked.id}", answer)
            written[asked.id] = place.reference
            kept[f"input:{asked.id}"] = place
        else:
            written[asked.id] = answer.replace("${", "$${")
    return _Answered(written, kept, tuple(unanswered))


def _one(
    server: PlannedServer, name: str, keep: Keep | None, answers: Answers
) -> tuple[TakenOver, dict[str, Any]]:
    answered = _answered(name, server.path, server.inputs, keep, answers)
    kept = answered.kept
    entry = answer_inputs(server.entry, answered.written)
    left = server.secrets
    if keep is not None:
        entry, moved, left = move_secrets(name, entry, keep)
        kept |= moved
    return TakenOver(name, kept, left, answered.unanswered), entry
