"""ConfigPlans: changes of a configuration file, shown before they are made, and undone."""

import secrets
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import msgspec

from pegboard.config.files.entry import IGNORED, SPELLINGS, ServerEntry
from pegboard.config.files.servers_file import ServersFile
from pegboard.config.masking import masked_text, unmasked
from pegboard.config.secrets.kept_secrets import KeptTogether
from pegboard.config.secrets.move_secrets import move_secrets
from pegboard.console.console_sessions import ConsoleSession
from pegboard.errors import ConfigError

__all__ = ["ConfigChange", "ConfigPlan", "ConfigPlans", "PlannedAction"]

PlannedAction = Literal["add", "edit", "remove", "enable", "disable", "undo"]

MOST_PLANS, MOST_CHANGES = 100, 20
_CONTEXT = 3
_REMOTE = frozenset(
    {"type", "url", "http_url", "headers", "bearer_token", "timeouts", "timeout", "protocol"}
    | {"allow", "deny", "prefix", "tags", "category", "enabled", "disabled", "lazy", "stateless"}
    | {"sharing", "max_result_chars", "max_response_values", "idempotent", "trust_hints"}
)
"""What a session from elsewhere may write: nothing that runs or reads something on this host."""
_ADDRESS = ("url", "http_url")
_CREDENTIALS = ("headers", "bearer_token", "oauth", "tls", "proxy")


class DiffLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a diff; its secrets are masked."""

    sign: Literal["+", "-", " ", "@"]
    text: str


class _Before(NamedTuple):
    """The text of a file before a change, and the kept secrets that it refers to."""

    text: str
    references: tuple[str, ...]


class ConfigPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A change that was not made yet."""

    id: str
    action: PlannedAction
    name: str
    entry: Mapping[str, Any] | None
    """Those fields of the new entry that change."""
    file: ServersFile
    before: str
    diff: tuple[DiffLine, ...]
    warnings: tuple[str, ...]
    session: str
    references: tuple[str, ...]
    """What the servers referred to before, of secrets that are kept elsewhere."""


class ConfigChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change that was made here, and can be undone while the file stays as it is."""

    id: str
    action: PlannedAction
    name: str
    at: datetime
    path: Path
    before: str
    after: str
    session: str
    notes: tuple[str, ...] = ()
    """Where secrets were moved to, and which ones are still in the file."""


class ConfigPlans:
    """The plans and the changes of all sessions, in memory; all methods may block.

    A session that is not the owner's changes only servers at an address, and neither sees nor
    sends on what the operator keeps: variables, files, and credentials for another address.
    """

    def __init__(self) -> None:
        self._plans: OrderedDict[str, ConfigPlan] = OrderedDict()
        self._changes: OrderedDict[str, ConfigChange] = OrderedDict()

    def put(
        self, path: Path, name: str, entry: Mapping[str, Any], session: ConsoleSession
    ) -> ConfigPlan:
        """Plan to add a server, or to change the one that has this name.

        Raises:
            ConfigError: when the entry cannot be used, or the session may not write it.
            ServerNotAllowedError: when the lists of the file do not allow it.
        """
        file = ServersFile(path)
        raw = file.entries.get(name)
        before = None if raw is None else raw.value
        whole = unmasked(entry, before)
        if not session.is_owner:
            _check_remote(whole, before)
        warnings = tuple(it.message for it in file.check(name, whole))
        was = _before(file)
        if before is None:
            file.put(name, whole)
        else:
            file.change(name, whole)
        old: Mapping[str, object] = {}
        if isinstance(before, Mapping):
            old = cast("Mapping[str, object]", before)
        changed = {field: it for field, it in whole.items() if old.get(field) != it}
        action: PlannedAction = "add" if raw is None else "edit"
        return self._kept(action, name, file, was, session, entry=changed, warnings=warnings)

    def remove(self, path: Path, name: str, session: ConsoleSession) -> ConfigPlan:
        """Plan to remove a server.

        Raises:
            ConfigError: when the session may not remove it.
            ServerNotFoundError: when no server has this name.
        """
        file = ServersFile(path)
        was, raw = _before(file), file.entries.get(name)
        if raw is not None and not session.is_owner:
            _check_remote({}, raw.value)
        file.remove(name)
        return self._kept("remove", name, file, was, session)

    def switch(self, path: Path, name: str, session: ConsoleSession, *, on: bool) -> ConfigPlan:
        """Plan to enable or disable a server.

        Raises:
            ConfigError: when its entry cannot be used, or the session may not start its program.
            ServerNotFoundError: when no server has this name.
        """
        file = ServersFile(path)
        was, raw = _before(file), file.entries.get(name)
        if on and raw is not None and not session.is_owner:
            _check_remote({}, raw.value)
        file.switch(name, on=on)
        return self._kept("enable" if on else "disable", name, file, was, session)

    def undo(self, change_id: str, session: ConsoleSession) -> ConfigPlan:
        """Plan to put back the text from before a change.

        Raises:
            ConfigError: when the change is not known, is of another session, or the file has
                changed since.
        """
        change = self._changes.get(change_id)
        if change is None or not (session.is_owner or change.session == session.csrf):
            raise ConfigError("This change is not known any more.")
        file = ServersFile(change.path)
        if file.text != change.after:
            raise ConfigError("The file has changed since. Edit it instead.", path=str(file.path))
        was = _before(file)
        file.put_back(change.before or '{\n  "mcpServers": {}\n}\n')
        return self._kept("undo", change.name, file, was, session)

    def find(self, plan_id: str, session: ConsoleSession) -> ConfigPlan:
        """Return a plan of a session.

        Raises:
            ConfigError: when it has none of this id.
        """
        plan = self._plans.get(plan_id)
        if plan is None or plan.session != session.csrf:
            raise ConfigError("This plan is not known any more. Make it again.")
        return plan

    def apply(self, plan_id: str, session: ConsoleSession) -> ConfigChange:
        """Make a planned change; new secrets in plain text are moved out of the file.

        Raises:
            ConfigError: when the plan is not known, or the file was written meanwhile.
        """
        plan = self.find(plan_id, session)
        self._plans.pop(plan.id, None)
        notes: list[str] = []
        with KeptTogether(plan.file.path) as keep:
            if plan.entry is not None:
                entry, kept, left = move_secrets(plan.name, plan.entry, keep)
                for field, place in kept.items():
                    where = "the keyring" if place.where == "keyring" else "a private file"
                    notes.append(f"The secret in `{field}` was moved to {where}.")
                for field, value in entry.items():
                    if value != plan.entry[field]:
                        plan.file.set_field(plan.name, field, value)
                notes += [f"The secret in `{it}` is still in the file." for it in left]
            plan.file.save()
        now = set(plan.file.kept_references())
        notes += [
            f"A secret that no server uses any more is still stored: {it}"
            for it in plan.references
            if it not in now
        ]
        change = ConfigChange(
            id=secrets.token_urlsafe(9),
            action=plan.action,
            name=plan.name,
            at=datetime.now(UTC),
            path=plan.file.path,
            before=plan.before,
            after=plan.file.text,
            session=session.csrf,
            notes=tuple(notes),
        )
        self._changes[change.id] = change
        while len(self._changes) > MOST_CHANGES:
            self._changes.popitem(last=False)
        return change

    def changes(self, path: Path, session: ConsoleSession) -> list[ConfigChange]:
        """Return the changes that a session can undo now, the newest first."""
        text = ServersFile(path).text
        found: dict[str, ConfigChange] = {}
        for it in reversed(self._changes.values()):
            is_own = session.is_owner or it.session == session.csrf
            if is_own and (it.path, it.after) == (path, text):
                found.setdefault(it.before, it)
        return list(found.values())

    def _kept(  # noqa: PLR0913 - the parts of a plan
        self,
        action: PlannedAction,
        name: str,
        file: ServersFile,
        was: _Before,
        session: ConsoleSession,
        *,
        entry: Mapping[str, Any] | None = None,
        warnings: tuple[str, ...] = (),
    ) -> ConfigPlan:
        plan = ConfigPlan(
            id=secrets.token_urlsafe(9),
            action=action,
            name=name,
            entry=entry,
            file=file,
            before=was.text,
            diff=tuple(_diff(was.text, file.text)),
            warnings=warnings,
            session=session.csrf,
            references=was.references,
        )
        self._plans[plan.id] = plan
        while len(self._plans) > MOST_PLANS:
            self._plans.popitem(last=False)
        return plan


def _before(file: ServersFile) -> _Before:
    references = tuple(dict.fromkeys(file.kept_references()))
    return _Before("" if file.is_new else file.text, references)


def _diff(before: str, after: str) -> Iterator[DiffLine]:
    """Compare what the texts are, and show what may be seen of them."""
    old, new = before.splitlines(), after.splitlines()
    shown_old = masked_text(before).splitlines() if before.strip() else []
    shown_new = masked_text(after).splitlines()
    for group in SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(_CONTEXT):
        yield DiffLine(sign="@", text=f"line {group[0][1] + 1}")
        for what, low, high, first, last in group:
            if what == "equal":
                yield from (DiffLine(sign=" ", text=it) for it in shown_new[first:last])
                continue
            yield from (DiffLine(sign="-", text=it) for it in shown_old[low:high])
            yield from (DiffLine(sign="+", text=it) for it in shown_new[first:last])


def _check_remote(entry: Mapping[str, Any], before: object) -> None:
    """Refuse what a session from elsewhere may not write.

    Raises:
        ConfigError: when it may not.
    """
    new, old = _named(entry), _named(before)
    if old and not any(it in old for it in _ADDRESS):
        raise ConfigError("A server with a command is changed only by the local owner.")
    if len(new) < len(entry):
        raise ConfigError("A field is there twice, in two spellings.")
    changed = {it for it in {*new, *old} if new.get(it) != old.get(it)}
    beyond = sorted(changed - _REMOTE - IGNORED) if new else []
    if beyond or new.get("type") == "stdio":
        fields = ", ".join(f"`{it}`" for it in beyond or ["type"])
        raise ConfigError(f"Only the local owner writes {fields}.")
    for field in changed:
        # In another field, such as the prefix of its tools, it would be shown.
        known = set(_texts(old.get(field)))
        if any("${" in it and it not in known for it in _texts(new.get(field))):
            raise ConfigError("Only the local owner refers to variables, files and kept secrets.")
    if changed.intersection(_ADDRESS):
        held = {text for it in _CREDENTIALS for text in _texts(old.get(it))}
        if held & {text for it in _CREDENTIALS for text in _texts(new.get(it))}:
            raise ConfigError("Its address changes, so write its credentials anew.")


def _named(entry: object) -> dict[str, Any]:
    """Return the fields of an entry in our spelling."""
    if not isinstance(entry, Mapping):
        return {}
    members = cast("Mapping[str, Any]", entry)
    return {SPELLINGS[ServerEntry].get(it, it): value for it, value in members.items()}


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        yield str(value)
    elif isinstance(value, Mapping):
        for it in cast("Mapping[str, object]", value).values():
            yield from _texts(it)
    elif isinstance(value, list):
        for it in cast("list[object]", value):
            yield from _texts(it)
