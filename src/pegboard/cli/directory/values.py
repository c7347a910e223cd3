"""The values that an entry asks for: from `--env`, from the terminal, and secrets kept apart."""

import sys
from collections.abc import Iterable, Mapping, Sequence

import typer

from pegboard.cli.terminal.output import answer_to, warn
from pegboard.config.secret_detection import secrets_in
from pegboard.config.secrets.kept_secrets import Keep, KeptSecret
from pegboard.directory.input_values import AskedValue, GivenValue, check_value

__all__ = ["GivenTexts", "ask_for_values", "keep_values", "texts_in"]

GivenTexts = Mapping[str, Sequence[GivenValue]]
_MOST_TRIES = 5
_MOST_REPEATED = 20


def texts_in(options: Iterable[str], asked: Sequence[AskedValue]) -> dict[str, list[GivenValue]]:
    """Return the values of `--env`, by name: NAME=VALUE, or the NAME of a variable of the shell.

    Raises:
        typer.BadParameter: when the server asks for no such value, or it does not fit.
    """
    known = {it.name: it for it in asked}
    found: dict[str, list[GivenValue]] = {}
    for option in options:
        name, equals, text = option.partition("=")
        name = name.strip()
        if name not in known:
            names = ", ".join(known) or "nothing"
            # Not quoted if it has no name: it may be a secret that lost it.
            what = f"{name!r}" if equals else "that"
            raise typer.BadParameter(f"The server does not ask for {what}; it asks for: {names}.")
        value = GivenValue(f"${{{name}}}", is_reference=True)
        if equals:
            value = GivenValue(_fitting(known[name], text))
        before = found.setdefault(name, [])
        if not known[name].is_repeated:
            before.clear()
        before.append(value)
    return found


def ask_for_values(
    asked: Sequence[AskedValue], given: dict[str, list[GivenValue]]
) -> dict[str, list[GivenValue]]:
    """Return all values: what is required and was not given is asked for at the terminal.

    Raises:
        typer.BadParameter: when there is no terminal to ask on; the message names what is missing.
    """
    missing = [
        it for it in asked if it.is_required and it.default is None and not given.get(it.name)
    ]
    if missing and not sys.stdin.isatty():
        lines = [f"  --env {it.name}=…  {_about(it)}" for it in missing]
        raise typer.BadParameter(
            "\n".join(["The server needs values, and there is no terminal to ask on:", *lines])
        )
    found = dict(given)
    for it in missing:
        found[it.name] = _asked(it)
    return found


def keep_values(
    server: str,
    asked: Sequence[AskedValue],
    given: GivenTexts,
    keep: Keep | None,
) -> tuple[dict[str, list[GivenValue]], dict[str, KeptSecret]]:
    """Put secret values where secrets are kept, and return references in their place.

    Args:
        server: its name in the configuration.
        asked: which values there are.
        given: the values.
        keep: keeps a secret; ``None`` leaves secrets where they are.
    """
    secret = {it.name for it in asked if it.is_secret}
    kept: dict[str, KeptSecret] = {}
    found: dict[str, list[GivenValue]] = {}
    for name, values in given.items():
        found[name] = []
        for value in values:
            is_kept = name in secret or any(secrets_in(value.text, name))
            if is_kept and keep is not None and not value.is_reference and value.text:
                kept[name] = keep(f"{server}.{name}", value.text)
                value = GivenValue(kept[name].reference, is_reference=True)  # noqa: PLW2901 - in its place
            found[name].append(value)
    return found, kept


def _asked(asked: AskedValue) -> list[GivenValue]:
    """Ask for one value until it fits, or for several if it may be repeated."""
    found: list[GivenValue] = []
    warn(f"{asked.name}: {_about(asked)}")
    tries = 0
    while tries < _MOST_TRIES and len(found) < _MOST_REPEATED:
        more = " (Enter for no more)" if found else ""
        text = answer_to(f"  {asked.name}{more} = ", is_secret=asked.is_secret)
        if text is None:
            raise typer.Abort
        if not text and found:
            break
        try:
            if not text:
                raise ValueError(f"{asked.name} is required.")  # noqa: TRY301 - as one that does not fit
            found.append(GivenValue(check_value(asked, text)))
        except ValueError as error:
            warn(str(error))
            tries += 1
            continue
        if not asked.is_repeated:
            break
    if not found:
        raise typer.BadParameter(f"{asked.name} was not given.")
    return found


def _fitting(asked: AskedValue, text: str) -> str:
    try:
        return check_value(asked, text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _about(asked: AskedValue) -> str:
    words = [asked.description] if asked.description else [f"an {asked.place}"]
    if asked.choices:
        words.append(f"One of {', '.join(asked.choices)}.")
    elif asked.placeholder and not asked.is_secret:
        words.append(f"For example {asked.placeholder}.")
    if asked.is_secret:
        words.append("Secret.")
    return " ".join(" ".join(words).split())
