"""Check descriptions for prompt injection: hidden characters, and orders to the model."""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import cast

from pegboard.doctor.checks.definitions import KnownTool
from pegboard.doctor.probes.probe import Probe
from pegboard.doctor.report import Finding, found, shown
from pegboard.model.hidden_characters import hidden_kinds, without_hidden

__all__ = ["check_descriptions", "check_instructions", "hidden_in", "orders_in"]

_LONGEST = 200_000
_DEEPEST = 60
_MIXED = re.compile(r"[a-zA-Z]{2}[\u0430-\u044f\u0455\u0456\u0458\u0410-\u042f][a-zA-Z]")
_PERSON = r"(?:the |your |this |any )?(?:user|human|person|operator)s?"
_BEFORE = r"(?:all |any |every |of )*(?:the |your |my |these )*"
_ORDERS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "it tells the model to forget what it was told",
        re.compile(
            rf"\b(?:ignore|disregard|forget|override|bypass) {_BEFORE}"
            r"(?:previous|prior|above|earlier|preceding|existing|other|system|safety) "
            r"(?:system |user )?"
            r"(?:instruction|message|prompt|rule|direction|guideline|context|order)s?"
            r"|忽略(?:之前|以上|先前|前面|上述|所有)[^。\n]{0,8}(?:指令|指示|说明|提示|规则)"
        ),
    ),
    (
        "it wants something hidden from the user",
        re.compile(
            r"\b(?:do not|don'?t|never|must not|without|avoid) (?:\w+ ){0,2}?"
            r"(?:tell|inform|mention|notify|reveal|alert|warn|telling|informing|notifying|asking)"
            rf"(?: \w+){{0,4}}? (?:to )?{_PERSON}\b(?! (?:id|name|data|input|password))"
            r"|\b(?:hide|conceal|keep) (?:this|it|these)(?: \w+){0,3} from "
            + _PERSON
            + r"|不要(?:告诉|告知|通知|让)用户"
        ),
    ),
    (
        "it marks a passage as an order to the model",
        re.compile(
            r"<\s*/?\s*(?:important|system|instructions?|secret|hidden|system[-_ ]?prompt|assistant"
            r"|admin|critical|override)\s*>"
            r"|\[/?(?:system|inst|instructions?)\]|<\|(?:im_start|system|assistant)\|?>"
        ),
    ),
    (
        "it asks for private files",
        re.compile(
            r"(?:read|open|cat|send|include|pass|attach|upload|load|access)\b[^\n]{0,80}?"
            r"(?:~?/?\.ssh/|id_rsa|id_ed25519|\.cursor/mcp\.json|/etc/(?:passwd|shadow)"
            r"|\.aws/credentials|\.netrc|claude_desktop_config\.json)"
        ),
    ),
    (
        "it asks for the model's instructions or conversation",
        re.compile(
            r"(?:send|include|pass|output|reveal|print|repeat|append|return|provide|copy)\b"
            r"[^\n.]{0,60}?(?:system prompt|(?:full|whole|entire|complete) "
            r"(?:conversation|chat)(?: history)?|previous messages)"
        ),
    ),
)


def check_descriptions(tool: KnownTool) -> Iterator[Finding]:
    """Yield what the definition of a tool hides from people, or orders a model to do."""
    text = "\n".join(_texts(tool.raw))
    whose = f"{shown(tool.original, 80)!r} of server {tool.config.name!r}"
    yield from _findings(text, f"The definition of tool {whose}", tool.config.name, tool.original)


def check_instructions(probe: Probe) -> Iterator[Finding]:
    """Yield the same for the instructions of a server."""
    text = "" if probe.negotiated is None else probe.negotiated.instructions
    name = probe.config.name
    yield from _findings(text, f"The instructions of server {name!r}", name, None)


def hidden_in(text: str) -> dict[str, str]:
    """Return the kinds of hidden characters in a text, each with the code point of the first."""
    kinds = hidden_kinds(text[:_LONGEST])
    mixed = _MIXED.search(text[:_LONGEST])
    if mixed is not None:
        letter = next(it for it in mixed[0] if not it.isascii())
        kinds["Cyrillic letters inside Latin words"] = f"U+{ord(letter):04X}"
    return kinds


def orders_in(text: str) -> dict[str, str]:
    """Return what a text orders a model to do, and the words that say so.

    Hidden characters are removed first.
    """
    plain = unicodedata.normalize("NFKC", without_hidden(text[:_LONGEST])).casefold()
    plain = re.sub(r"[^\S\n]+", " ", plain)
    matches = {what: pattern.search(plain) for what, pattern in _ORDERS}
    return {what: match[0] for what, match in matches.items() if match is not None}


def _findings(text: str, subject: str, server: str, tool: str | None) -> Iterator[Finding]:
    if tool:
        remedy = (
            "Read the whole definition (`pegboard show`) before you use the tool. Ask the author "
            f'of the server, or exclude the tool: `"deny": ["{shown(tool, 80)}"]`.'
        )
    else:
        remedy = "Ask the author of the server about it, or remove the server."
    verb = "contains" if tool else "contain"
    label = None if tool is None else shown(tool, 80)
    for kind, first in hidden_in(text).items():
        what = f"{subject} {verb} {kind} ({first})."
        yield found("hidden_characters", what, remedy, server=server, tool=label)
    verb = "gives" if tool else "give"
    for what, words in orders_in(text).items():
        said = f"{subject} {verb} orders to the model: {what} ({shown(words, 100)!r})."
        yield found("instructions_to_model", said, remedy, server=server, tool=label)


def _texts(value: object, depth: int = 0) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif depth < _DEEPEST and isinstance(value, Mapping):
        for key, item in cast("Mapping[object, object]", value).items():
            if isinstance(key, str):
                yield key
            yield from _texts(item, depth + 1)
    elif depth < _DEEPEST and isinstance(value, list | tuple):
        for item in cast("list[object]", value):
            yield from _texts(item, depth + 1)
