"""The values of one room in a JSON store."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from pegboard.storage.encoding import check_key, encode_value
from pegboard.storage.json_file.changes import Change, Forgotten, Put
from pegboard.storage.json_file.content import JsonContent, revision_of
from pegboard.storage.json_file.files import JsonFiles
from pegboard.storage.store import ANY, Revision, StoredValue

__all__ = ["JsonValues"]


class JsonValues:
    """JSON values by key; see `KeyValues` for what each method does."""

    def __init__(
        self,
        files: JsonFiles,
        namespace: str,
        *,
        compare: Callable[[str, int | None, Revision], None],
    ) -> None:
        self._files = files
        self._namespace = namespace
        self._compare = compare

    def get(self, key: str) -> StoredValue | None:
        """Return a value, or ``None`` when there is none."""
        text = self.text(key)
        return None if text is None else _stored(text)

    def text(self, key: str) -> bytes | None:
        """Return a value as JSON, or ``None`` when there is none."""
        check_key("key", key)
        return self._files.read(lambda content: self._room(content).get(key))

    def items(self) -> Mapping[str, StoredValue]:
        """Return everything, in the order of the keys."""
        found = self._files.read(lambda content: sorted(self._room(content).items()))
        return {key: _stored(text) for key, text in found}

    def keys(self) -> list[str]:
        """Return the keys alone, in order."""
        return self._files.read(lambda content: sorted(self._room(content)))

    def put(self, key: str, value: Any, *, expected: Revision = ANY) -> int:
        """Keep a value and return its revision."""
        [revision] = self._put({key: value}, expected)
        return revision

    def put_many(self, values: Mapping[str, Any]) -> None:
        """Keep many values, all or none."""
        self._put(values, ANY)

    def delete(self, keys: Iterable[str]) -> int:
        """Forget values, and return how many there were."""
        unwanted = {check_key("key", key): None for key in keys}

        def plan(content: JsonContent) -> tuple[list[Change], int]:
            room = self._room(content)
            changes: list[Change] = [
                Forgotten(self._namespace, key, revision_of(room[key]))
                for key in unwanted
                if key in room
            ]
            return changes, len(changes)

        return self._files.write(plan)

    def _put(self, values: Mapping[str, Any], expected: Revision) -> list[int]:
        texts = {check_key("key", key): _text(key, value) for key, value in values.items()}

        def plan(content: JsonContent) -> tuple[list[Change], list[int]]:
            changes: list[Change] = []
            revisions: list[int] = []
            for key, text in texts.items():
                found = content.value_revision(self._namespace, key)
                self._compare(key, found, expected)
                revisions.append(revision_of(text))
                changes.append(Put(self._namespace, key, found, msgspec.Raw(text)))
            return changes, revisions

        return self._files.write(plan)

    def _room(self, content: JsonContent) -> dict[str, bytes]:
        return content.values.get(self._namespace, {})


def _text(key: str, value: object) -> bytes:
    try:
        return encode_value(value)
    except ValueError as error:
        raise ValueError(f"The value of {key!r} cannot be stored. {error}") from error


def _stored(text: bytes) -> StoredValue:
    return StoredValue(value=msgspec.json.decode(text), revision=revision_of(text))
