"""Content blocks of a result: text, image, audio, resources; binary data stays base64 text."""

from collections.abc import Mapping
from typing import Any

import msgspec

from pegboard.model.json_values import freeze

__all__ = [
    "Audio",
    "Content",
    "EmbeddedResource",
    "Image",
    "Other",
    "ResourceContents",
    "ResourceLink",
    "Text",
    "truncate_text",
]


class _Block(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="type", rename="camel", omit_defaults=True
):
    annotations: Mapping[str, Any] | None = None
    meta: Mapping[str, Any] | None = msgspec.field(default=None, name="_meta")

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "annotations", freeze(self.annotations))
        msgspec.structs.force_setattr(self, "meta", freeze(self.meta))


class Text(_Block, frozen=True, kw_only=True, tag="text"):
    """Plain text."""

    text: str


class Image(_Block, frozen=True, kw_only=True, tag="image"):
    """An image, base64."""

    data: str
    mime_type: str


class Audio(_Block, frozen=True, kw_only=True, tag="audio"):
    """A sound, base64."""

    data: str
    mime_type: str


class ResourceLink(_Block, frozen=True, kw_only=True, tag="resource_link"):
    """A reference to a resource that can be read separately."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None


class ResourceContents(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True
):
    """What a resource holds: either text or a base64 blob."""

    uri: str
    mime_type: str | None = None
    text: str | None = None
    blob: str | None = None
    meta: Mapping[str, Any] | None = msgspec.field(default=None, name="_meta")

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "meta", freeze(self.meta))


class EmbeddedResource(_Block, frozen=True, kw_only=True, tag="resource"):
    """A resource carried inside the result."""

    resource: ResourceContents


class Other(_Block, frozen=True, kw_only=True, tag="other"):
    """A block of a type or form that Pegboard does not know; it is kept as it came."""

    block: Mapping[str, Any]

    def __post_init__(self) -> None:
        super().__post_init__()
        msgspec.structs.force_setattr(self, "block", freeze(self.block))


Content = Text | Image | Audio | ResourceLink | EmbeddedResource | Other
"""Any content block."""


def truncate_text(text: str, limit: int) -> str:
    """Return at most ``limit`` characters of the text, and a mark that says how many are shown.

    A text that fits is returned unchanged, without a mark.
    """
    if limit < 0:
        raise ValueError(f"`limit` is a number of characters and must not be negative: {limit}.")
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… [truncated: {limit} of {len(text)} characters shown]"
