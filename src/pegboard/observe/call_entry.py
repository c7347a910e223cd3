"""CallEntry: one call as it is kept, shown and exported, and the filter that chooses calls."""

from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any

import msgspec

from pegboard.errors import Outcome
from pegboard.model.call import CallRecord, Phases
from pegboard.model.principal import DEFAULT_TENANT
from pegboard.observe.audit import redacted

__all__ = ["CallEntry", "CallFilter", "entry_as_json", "entry_of"]

LONGEST_NAME = 200
NOT_RECORDED = msgspec.Raw(b"")
"""For arguments or a result that the operator does not record."""
_MOST_SECONDS = 253_402_300_000.0
"""The end of the year 9999."""


class CallEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One finished call."""

    id: str
    """In the order in which calls ended."""
    started: datetime
    seconds: float
    tool: str
    outcome: Outcome
    tenant: str = DEFAULT_TENANT
    caller: str = ""
    """The id of the key, or the subject of the token."""
    client: str = ""
    """The name and version that the client gives of itself."""
    session: str = ""
    """A digest of the session's id, which is a secret."""
    server: str | None = None
    error_code: str | None = None
    attempts: int = 0
    """How often the tool was started."""
    count: int = 1
    """How many equal calls there were; more than one only in a flood of refusals."""
    arguments_size: int | None = None
    result_size: int | None = None
    phases: Phases | None = None
    arguments: msgspec.Raw = NOT_RECORDED
    result: msgspec.Raw = NOT_RECORDED

    @property
    def failed(self) -> bool:
        """True when the call did not end ``ok``."""
        return self.outcome != "ok"


class CallFilter(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """Which calls are wanted; the fields are combined, and the newest calls come first."""

    limit: int = 100
    tool: str = ""
    """A name, or a glob pattern."""
    server: str = ""
    """The same."""
    caller: str = ""
    """The id of a key, or a subject; its beginning is enough."""
    client: str = ""
    """A part of the client's name."""
    tenant: str | None = None
    """``None`` for all tenants, which only the operator may ask for."""
    failed: bool = False
    """Only calls that did not end ``ok``."""
    outcome: Outcome | None = None
    since: datetime | None = None
    until: datetime | None = None
    id: str = ""
    """Only this call."""
    before: str = ""
    """The last id of a page: only calls that ended before it."""
    after: str = ""
    """Only calls that ended after the one with this id."""

    def matches(self, call: CallEntry) -> bool:
        """Tell whether a call is wanted."""
        return (
            (not self.failed or call.failed)
            and self.outcome in (None, call.outcome)
            and self.tenant in (None, call.tenant)
            and (not self.id or self.id == call.id)
            and (not self.tool or fnmatchcase(call.tool, self.tool))
            and (not self.server or fnmatchcase(call.server or "", self.server))
            and call.caller.startswith(self.caller)
            and self.client.casefold() in call.client.casefold()
            and (self.since is None or call.started >= self.since)
            and (self.until is None or call.started < self.until)
            and (not self.before or call.id < self.before)
        )


def entry_of(record: CallRecord, *, id: str, count: int = 1) -> CallEntry:  # noqa: A002 - its name in JSON
    """Return a record as it is kept: names are cut, and what looks like a secret is redacted."""
    said = record.meta
    tenant, caller, client, session = _caller(
        said.get("tenant"), said.get("subject"), said.get("client"), said.get("session")
    )
    started, spent = record.started, record.phases
    if not 0.0 <= started <= _MOST_SECONDS:
        started = 0.0
    return CallEntry(
        id=id,
        started=datetime.fromtimestamp(started, UTC),
        seconds=round(record.duration, 6),
        tool=_name(record.tool),
        outcome=record.outcome,
        tenant=tenant,
        caller=caller,
        client=client,
        session=session,
        server=record.server,
        error_code=record.error_code,
        attempts=record.attempts,
        count=count,
        arguments_size=record.arguments_size,
        result_size=record.result_size,
        phases=None if spent is None else _rounded(spent),
        arguments=_raw(record.arguments),
        result=_raw(record.result),
    )


def entry_as_json(call: CallEntry) -> dict[str, Any]:
    """Return a call as ``--json`` prints it: every field, also those that are empty."""
    found = {name: getattr(call, name) for name in call.__struct_fields__}
    spent = call.phases or Phases()
    found["phases"] = {name: getattr(spent, name) for name in Phases.__struct_fields__}
    for name in ("arguments", "result"):
        if not bytes(found[name]):
            del found[name]
    return found


def _rounded(spent: Phases) -> Phases:
    # Most phases of most calls are zero.
    return Phases(
        spent.queued and round(spent.queued, 6),
        spent.connecting and round(spent.connecting, 6),
        round(spent.at_server, 6),
        spent.waiting and round(spent.waiting, 6),
        spent.caching and round(spent.caching, 6),
    )


@lru_cache(maxsize=4096)
def _caller(
    tenant: object, subject: object, client: object, session: object
) -> tuple[str, str, str, str]:
    return _name(tenant) or DEFAULT_TENANT, _name(subject), _name(client), _name(session)


def _name(value: object) -> str:
    text = value if isinstance(value, str) else ""
    return redacted(text[:LONGEST_NAME], is_name=True) if text else ""


def _raw(value: object) -> msgspec.Raw:
    if value is None:
        return NOT_RECORDED
    return value if isinstance(value, msgspec.Raw) else msgspec.Raw(msgspec.json.encode(value))
