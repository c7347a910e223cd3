"""The decisive line of what a program printed before it ended: the cause, not the last line."""

import re
from collections.abc import Sequence

from pegboard.upstream.stdio.process import without_chatter

__all__ = ["UNTRUSTED", "decisive_line"]

UNTRUSTED: re.Pattern[str] = re.compile(
    r"UnknownIssuer|CERTIFICATE_VERIFY_FAILED|SELF_SIGNED_CERT|DEPTH_ZERO_SELF_SIGNED"
    r"|UNABLE_TO_(?:GET_ISSUER|VERIFY_LEAF)\w*|unable to (?:get|verify)[\w ]* certificate"
    r"|self[- ]signed certificate|invalid peer certificate|x509: certificate signed by unknown"
)
"""How uv, Python, Node.js and Go say that they do not trust a certificate."""

_TRACEBACK = "Traceback (most recent call last)"
# Of a traceback, only the line with the error begins at the margin.
_RAISED = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Warning|Group)\b")
_KINDS: tuple[re.Pattern[str], ...] = (
    UNTRUSTED,
    re.compile(r"npm (?:error|ERR!) code \w+"),
    re.compile(r"\s*(?:(?:Caused by|cause): |(?:error|fatal|panic)(?:\[\w+\])?: )", re.IGNORECASE),
    re.compile(r"(?:Uncaught )?\w*Error(?: \[\w+\])?: "),
)
"""How a line with a cause looks, the most certain first."""


def decisive_line(lines: Sequence[str]) -> str | None:
    """Return the line that says why a program failed; ``None`` when it printed nothing."""
    said = without_chatter(lines)
    if not said:
        return None
    certain, *others = _KINDS
    kinds = [certain, _RAISED, *others] if any(_TRACEBACK in it for it in said) else _KINDS
    for kind in kinds:
        # The name of a certificate error may be anywhere; the other kinds begin a line.
        found = [it for it in said if (kind.search(it) if kind is UNTRUSTED else kind.match(it))]
        if found:
            return found[-1].strip()
    return said[-1].strip()
