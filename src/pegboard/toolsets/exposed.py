"""One tool as a view shows it, with what has been worked out about it."""

from collections.abc import Callable
from typing import Any

import msgspec

from pegboard.model import Tool
from pegboard.model.lazy import MadeOnce
from pegboard.toolsets.anthropic import anthropic_definition
from pegboard.toolsets.combining import Schema
from pegboard.toolsets.dialect import root_object
from pegboard.toolsets.gemini import gemini_definition
from pegboard.toolsets.nulls import drop_forbidden_nulls
from pegboard.toolsets.openai import OpenAIApi, openai_definition
from pegboard.toolsets.property_names import (
    ANY_LEGAL,
    IDENTIFIERS,
    aliases_of,
    rename_properties,
    restore_names,
)
from pegboard.toolsets.references import inline

__all__ = ["ExposedTool"]


class ExposedTool:
    """A tool under the name of a view; everything about it is worked out once, when asked for."""

    def __init__(self, source: Tool, tool: Tool, *, provider_name: str) -> None:
        self.source: Tool = source
        """As the registry has it."""
        self.tool: Tool = tool
        """As the view shows it."""
        self.provider_name: str = provider_name
        """A name that every provider takes."""
        self._written: dict[object, bytes] = {}

    def openai(self, *, strict: bool, api: OpenAIApi) -> dict[str, Any]:
        """Return the definition for OpenAI.

        Raises:
            DialectError: when it has none.
        """
        return self._definition(
            ("openai", strict, api),
            lambda: openai_definition(
                *self._words, parameters=self.parameters, strict=strict, api=api
            ),
        )

    def anthropic(self) -> dict[str, Any]:
        """Return the definition for Anthropic.

        Raises:
            DialectError: when it has none.
        """
        return self._definition(
            "anthropic", lambda: anthropic_definition(*self._words, parameters=self.parameters)
        )

    def gemini(self) -> dict[str, Any]:
        """Return the definition for Gemini.

        Raises:
            DialectError: when it has none.
        """
        return self._definition(
            "gemini", lambda: gemini_definition(*self._words, parameters=self._gemini_parameters)
        )

    def arguments(self, given: Any) -> Any:
        """Return arguments as the tool itself takes them: original names, no needless nulls."""
        if self._originals:
            try:
                given = restore_names(given, self._originals)
            except RecursionError:
                return given
        return drop_forbidden_nulls(given, self._inlined, original=self.source.input_schema)

    @MadeOnce
    def parameters(self) -> Schema:
        """The schema as one object, without references, under names OpenAI and Anthropic take."""
        return root_object(rename_properties(self._inlined, self._aliases))

    @MadeOnce
    def root(self) -> Schema:
        """The schema as one object, without references, under the original names."""
        return root_object(self._inlined)

    @MadeOnce
    def _inlined(self) -> Schema:
        return inline(self.source.input_schema)

    @MadeOnce
    def _aliases(self) -> dict[str, str]:
        return aliases_of(self._inlined, ANY_LEGAL)

    @MadeOnce
    def _gemini_aliases(self) -> dict[str, str]:
        return aliases_of(self._inlined, IDENTIFIERS)

    @property
    def _gemini_parameters(self) -> Schema:
        return root_object(rename_properties(self._inlined, self._gemini_aliases))

    @MadeOnce
    def _originals(self) -> dict[str, str]:
        aliases = {**self._aliases, **self._gemini_aliases}
        return {alias: name for name, alias in aliases.items()}

    @property
    def _words(self) -> tuple[str, str]:
        tool = self.tool
        words = tool.description or tool.annotations.title or tool.name
        # Half a surrogate pair cannot be sent to anybody.
        return self.provider_name, words.encode("utf-8", "replace").decode("utf-8")

    def _definition(self, key: object, build: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        written = self._written.get(key)
        if written is None:
            # Kept as text, so that everyone gets a definition of their own to change.
            written = self._written[key] = msgspec.json.encode(build())
        return msgspec.json.decode(written)
