"""Compile a JSON Schema into a validator, and refuse a schema that takes too much work."""

import re
import time
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import jsonschema_rs
import msgspec

from pegboard.model.json_values import object_in
from pegboard.model.schema.cost import evaluations_per_value, subschemas

__all__ = ["SchemaValidator", "compile_schema"]

MAX_SIZE = 500_000
"""Bytes that a schema may have as JSON; the largest real schemas have a few dozen kilobytes."""
MAX_EVALUATIONS = 4_000
"""Subschemas that may be evaluated for one value; the richest real schemas need a few dozen."""
MAX_PATTERNS = 200
"""Regular expressions that one schema may have; each takes memory."""
MAX_TEXT, MAX_ANCHORED_TEXT = 4_000, 100_000
"""Characters that are matched with a pattern that looks around: it may take quadratic time. One
that begins with ``^`` usually takes linear time."""
MAX_PATTERN_SECONDS = 0.05
"""CPU time after which these patterns match no more texts of the same value."""
_READ_CLOCK = 50_000
"""Estimated steps after which the CPU time is read, which is slow itself."""

_MARKS = ('"pattern', 'ef":', '"unevaluated')
"""Keywords by which a schema can take more time than its size suggests."""
_PATTERNS = jsonschema_rs.FancyRegexOptions(backtrack_limit=10_000, size_limit=200_000)
# Look-around, atomic groups, back-references: what no automaton matches in linear time.
_LOOKS_AROUND = re.compile(r"\(\?(?:[=!>]|<[=!])|\\[1-9k]|[*+?}]\+")
_encode = msgspec.json.Encoder().encode


class SchemaValidator(Protocol):
    """A compiled schema; while it validates, it cannot be interrupted."""

    def is_valid(self, instance: Any) -> bool:
        """Tell whether a value fits; this ends at the first problem."""
        ...

    def validate(self, instance: Any) -> None:
        """Raise the first problem of a value as a `jsonschema_rs.ValidationError`."""
        ...

    def iter_errors(self, instance: Any) -> Iterator[jsonschema_rs.ValidationError]:
        """Return all problems of a value; they are all found before this returns."""
        ...


def compile_schema(schema: Mapping[str, Any], *, mask: str | None = None) -> SchemaValidator:
    """Return a validator of values.

    Args:
        schema: the schema.
        mask: stands for the value in the messages of errors, so that a large one is not written.

    Raises:
        ValueError: when it is no schema, or one that would take too much work.
        TypeError: when it is not JSON.
        RecursionError: when it is nested too deeply.
        jsonschema_rs.ReferencingError: when it refers to something that is not in it.
    """
    # As text: the validator knows plain dicts and lists only, and ours are frozen.
    text = _encode(schema).decode()
    if len(text) > MAX_SIZE:
        raise ValueError(f"it has more than {MAX_SIZE:,} bytes")
    if any(mark in text for mark in _MARKS):
        _refuse_exponential_work(schema, text)
    if '"pattern' in text and _LOOKS_AROUND.search(text) is not None:
        return _MeteredValidator(schema, text, mask)
    return _compiled(text, mask)


def _compiled(
    text: str, mask: str | None = None, keywords: dict[str, Any] | None = None
) -> SchemaValidator:
    return jsonschema_rs.validator_for(
        text, offline=True, pattern_options=_PATTERNS, mask=mask, keywords=keywords
    )


def _refuse_exponential_work(schema: Mapping[str, Any], text: str) -> None:
    if text.count('"pattern') > MAX_PATTERNS:
        raise ValueError(f"it has more than {MAX_PATTERNS} patterns")
    if evaluations_per_value(schema) > MAX_EVALUATIONS:
        raise ValueError(
            f"its references multiply: more than {MAX_EVALUATIONS:,} subschemas apply to one value"
        )


class _MeteredValidator:
    """A validator whose patterns look around: it limits their texts, and their time together."""

    def __init__(self, schema: Mapping[str, Any], text: str, mask: str | None) -> None:
        # First as it is: patterns with a keyword of our own are not checked.
        _compiled(text)
        for it in subschemas(schema):
            if any(_LOOKS_AROUND.search(name) for name in object_in(it.get("patternProperties"))):
                raise ValueError("a pattern of its patternProperties looks around")
        self._began, self._steps, self._is_over = 0.0, 0, False
        match = self._match

        class Pattern:
            def __init__(self, _: dict[str, Any], value: str, __: list[str | int]) -> None:
                self._words = f"must match the pattern `{value}`"
                self._fits = _compiled(_encode({"pattern": value}).decode()).is_valid
                self._longest = MAX_ANCHORED_TEXT if value.startswith("^") else MAX_TEXT
                self._looks_around = _LOOKS_AROUND.search(value) is not None

            def validate(self, instance: Any) -> None:
                if not isinstance(instance, str):
                    return
                if self._looks_around:
                    match(instance, self._longest)
                if not self._fits(instance):
                    raise ValueError(self._words)

        self._inner = _compiled(text, mask, {"pattern": Pattern})

    def is_valid(self, instance: Any) -> bool:
        return self._started().is_valid(instance)

    def validate(self, instance: Any) -> None:
        self._started().validate(instance)

    def iter_errors(self, instance: Any) -> Iterator[jsonschema_rs.ValidationError]:
        return self._started().iter_errors(instance)

    def _started(self) -> SchemaValidator:
        self._began, self._steps, self._is_over = time.thread_time(), 0, False
        return self._inner

    def _match(self, text: str, longest: int) -> None:
        """Raise `ValueError` if a text is too long, or if no time is left to match it."""
        length = len(text)
        if length > longest:
            words = f"must have at most {longest} characters, because its pattern looks around"
            raise ValueError(words)
        self._steps += 500 + length * length
        if self._steps > _READ_CLOCK:
            self._steps = 0
            self._is_over = time.thread_time() - self._began > MAX_PATTERN_SECONDS
        if self._is_over:
            raise ValueError("there is no time to match so many texts with patterns")
