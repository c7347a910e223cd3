"""AuditRecord: who did what, when, and what became of it."""

import re
from functools import lru_cache
from typing import Any, Literal

import msgspec

from pegboard.config.secret_detection import looks_like_token, secrets_in
from pegboard.model import CallRecord

__all__ = ["AuditOutcome", "AuditRecord", "record_of_call", "without_secrets"]

AuditOutcome = Literal["done", "refused", "failed"]
"""It was done; it was not allowed; it was tried and did not work."""

LONGEST_TEXT = 300
LOOKED_AT = 1_000
"""So much of a text is looked through for secrets before it is cut: one may be where it is cut."""
_OWN_KEY = re.compile(r"\b(pb_[a-z0-9]{1,12})_[0-9A-Za-z]+")
_NAMES = ("tenant", "subject")
_TEXTS = (*_NAMES, "action", "reason", "target", "source")


class AuditRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One act, or several that are alike."""

    at: float
    """Seconds since the epoch; of the first, if there are several."""
    action: str
    """``authenticate``, ``keys.create``, ``register_tool``, or the method that was asked for."""
    outcome: AuditOutcome
    reason: str = ""
    """The code of the error, or why it was refused."""
    tenant: str = ""
    subject: str = ""
    target: str = ""
    """What it was done to: a tool, a prompt, a resource, the id of a key."""
    source: str = ""
    """Where the request came from."""
    count: int = 1
    """How many there were, all alike, within the two seconds between two writes."""
    duration: float | None = None
    """Seconds."""
    arguments_size: int | None = None
    result_size: int | None = None

    def __post_init__(self) -> None:
        for name in _TEXTS:
            # Whoever chooses a text must not choose how much is kept of it, in memory either.
            text = getattr(self, name)
            if len(text) > LOOKED_AT:
                msgspec.structs.force_setattr(self, name, text[:LOOKED_AT])


def record_of_call(record: CallRecord) -> AuditRecord:
    """Return what the audit keeps of a call; the caller is in its ``meta``."""
    return AuditRecord(
        at=record.started,
        action="tools/call",
        outcome=_OUTCOMES.get(record.outcome, "failed"),
        reason="" if record.outcome == "ok" else record.error_code or record.outcome,
        tenant=_text(record.meta.get("tenant")),
        subject=_text(record.meta.get("subject")),
        target=record.tool,
        duration=record.duration,
        arguments_size=record.arguments_size,
        result_size=record.result_size,
    )


_OUTCOMES: dict[str, AuditOutcome] = {"ok": "done", "refused": "refused"}


def without_secrets(record: AuditRecord) -> dict[str, Any]:
    """Return a record as JSON, with nothing in it that looks like a secret, and no long text."""
    found: dict[str, Any] = msgspec.to_builtins(record)
    for name in found.keys() & set(_TEXTS):
        text = _redacted(found[name], is_name=name in _NAMES)
        found[name] = text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"
    return found


@lru_cache(maxsize=10_000)
def _redacted(text: str, *, is_name: bool) -> str:
    # Not every store holds every character.
    text = "".join(it if it.isprintable() else "?" for it in text)
    text = _OWN_KEY.sub(r"\1_***", text)
    if is_name:
        # Of names only what is certainly a token: an issuer with a random path is none.
        return "***" if looks_like_token(text) else text
    for suspect in sorted({it.value for it in secrets_in(text)}, key=len, reverse=True):
        text = text.replace(suspect, "***")
    return text


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
