"""What every store is measured on: definitions of the size that real servers send."""

from typing import Any

TOOLS = 10_000
_VERBS = ("create", "list", "update", "delete", "search", "export", "archive", "assign")
_NOUNS = ("issue", "page", "message", "invoice", "branch", "contact", "event", "file", "table")
_FIELDS = ("title", "owner", "status", "labels", "due_date", "parent_id", "limit", "cursor")


def definition(number: int) -> dict[str, Any]:
    """About 950 bytes of JSON, as the mean of 397 definitions of 21 real servers."""
    verb, noun = _VERBS[number % len(_VERBS)], _NOUNS[number % len(_NOUNS)]
    properties = {
        field: {
            "type": "integer" if field == "limit" else "string",
            "description": f"The {field} of the {noun}; leave it out to keep what is there now.",
        }
        for field in _FIELDS[: 5 + number % 4]
    }
    return {
        "name": f"{verb}_{noun}_{number}",
        "description": f"{verb.capitalize()} a {noun} in the workspace of the current user. "
        f"Use it when the user asks to {verb} one {noun}, never for several at once; returns "
        "the new state, or an error that says which argument was wrong.",
        "category": noun,
        "tags": [verb, noun],
        "input_schema": {
            "type": "object",
            "properties": properties,
            "required": ["title"],
            "additionalProperties": False,
        },
    }
