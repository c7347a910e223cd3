"""Every field of every message, from the schemas of the protocol, and hostile values for each.

`python -m bench.neighbours_fields` prints the list. A field that a new version of the SDK or a
built-in tool brings is in it without a change here.
"""

import functools
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcp_types import methods
from pydantic import BaseModel, TypeAdapter

if TYPE_CHECKING:
    from types import UnionType

HOLE = "@hole@"
MODERN, HANDSHAKE = "2026-07-28", "2025-11-25"
ERAS = {"modern": MODERN, "handshake": HANDSHAKE}
_META = "io.modelcontextprotocol/"
ENVELOPE: dict[str, Any] = {
    f"{_META}protocolVersion": MODERN,
    f"{_META}clientInfo": {"name": "attacker", "version": "1"},
    f"{_META}clientCapabilities": {"elicitation": {"form": {}}, "sampling": {}, "roots": {}},
}
_DEEPEST = 8
"""How deep the walk follows a schema."""
_WRONG_TYPE = ("long string", "array of empty arrays", "many keys")
"""Values that are tried where they do not belong, too."""
_EVERYWHERE = frozenset({"id", "params", "params._meta", "_meta", "resultType"})
"""Fields that all messages have, so that they are tried in one of them."""
_LEVELS = 199
"""How deep a nested value is: the gateway takes 200 levels of a client."""

Schema = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Field:
    """One place of a message: its path, the types that belong there, and the message around it."""

    path: str
    types: frozenset[str]
    message: str
    """The message as JSON, with the hole for a value."""

    def filled(self, value: bytes) -> bytes:
        """The message with a value in its hole."""
        before, _, after = self.message.partition(json.dumps(HOLE))
        return before.encode() + value + after.encode()

    def hostile(self, values: "Mapping[str, Value]") -> list[str]:
        """Names of the values to try: all of its own types, and some of other types."""
        return [
            name
            for name, it in values.items()
            if it.type in self.types or not self.types or name in _WRONG_TYPE
        ]


@dataclass(frozen=True, kw_only=True)
class Value:
    """A hostile value: its type, and how its JSON is made for a size and a number of values."""

    type: str
    make: Callable[[int, int], bytes]


def _text(unit: str) -> Callable[[int, int], bytes]:
    part = unit.encode()
    return lambda size, _: b'"' + part * (size // len(part)) + b'"'


def _array(item: str, each: int = 1) -> Callable[[int, int], bytes]:
    part = item.encode()

    def make(size: int, values: int) -> bytes:
        return b"[" + b",".join([part] * min(values // each, size // (len(part) + 1))) + b"]"

    return make


def _keys(size: int, values: int) -> bytes:
    count = min(values // 2, size // 12)
    return b"{" + b",".join(b'"k%d":0' % it for it in range(count)) + b"}"


VALUES: dict[str, Value] = {
    "long string": Value(type="string", make=_text("x")),
    "words": Value(type="string", make=_text("ab ")),
    "escapes": Value(type="string", make=_text("\\u0041")),
    "odd unicode": Value(type="string", make=_text("\u202e\U000e0041e\u0301\ufdfa\u2028")),
    "lone surrogates": Value(type="string", make=_text("\\ud800")),
    "slashes": Value(type="string", make=_text("../")),
    "templates": Value(type="string", make=_text("{a}")),
    "brackets": Value(type="string", make=_text("(a+)+")),
    "many digits": Value(type="number", make=lambda size, _: b"9" * size),
    "4,000 digits": Value(type="number", make=lambda *_: b"9" * 4000),
    "large exponent": Value(type="number", make=lambda *_: b"1e" + b"9" * 300),
    "array of numbers": Value(type="array", make=_array("1")),
    "array of empty arrays": Value(type="array", make=_array("[]", 2)),
    "array of strings": Value(type="array", make=_array('"ab"')),
    "array of objects": Value(type="array", make=_array('{"type":"text","text":"x"}', 4)),
    "nested arrays": Value(type="array", make=lambda *_: b"[" * _LEVELS + b"]" * _LEVELS),
    "many nested arrays": Value(type="array", make=_array("[" * 90 + "]" * 90, 91)),
    "many keys": Value(type="object", make=_keys),
    "one key again": Value(
        type="object",
        make=lambda size, values: b"{" + _array('"a":0', 2)(size, values)[1:-1] + b"}",
    ),
    "long key": Value(type="object", make=lambda size, _: b'{"' + b"x" * size + b'":0}'),
    "nested objects": Value(
        type="object", make=lambda *_: b'{"a":' * _LEVELS + b"0" + b"}" * _LEVELS
    ),
    "true": Value(type="boolean", make=lambda *_: b"true"),
}


@functools.lru_cache(maxsize=64)
def made(name: str, size: int, values: int) -> bytes:
    """The JSON of a hostile value, made once."""
    return VALUES[name].make(size, values)


def schema_of(kind: "type[BaseModel] | UnionType") -> Schema:
    """The JSON schema of a type of the SDK."""
    return TypeAdapter[Any](kind).json_schema(by_alias=True)


class Fields:
    """Walks the schemas of messages; what several messages share is walked once."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, ...]] = set()

    def of(self, schema: Schema, sample: Any, *, era: str) -> list[Field]:
        """The fields of a message that is described by a schema, around a sample of it."""
        definitions = schema.get("$defs", {})
        walk = _Walk(definitions, self._seen, era)
        return list(walk.fields(schema, "", lambda value: value, sample, 0))


class _Walk:
    def __init__(self, definitions: Schema, seen: set[tuple[str, ...]], era: str) -> None:
        self._definitions, self._seen, self._era = definitions, seen, era

    def fields(  # noqa: C901 - one branch for each keyword of a schema
        self, schema: Schema, path: str, embed: Callable[[Any], Any], sample: Any, depth: int
    ) -> Iterator[Field]:
        if depth > _DEEPEST:
            return
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            if name == "JSONValue" or (self._era, name) in self._seen:
                return
            self._seen.add((self._era, name))
            yield from self.fields(self._definitions[name], path, embed, sample, depth)
            return
        choices = schema.get("anyOf") or schema.get("oneOf") or ()
        for it in choices:
            # Two choices are mostly a field that may be null; more are a union.
            yield from self.fields(it, path, embed, sample if len(choices) < 3 else None, depth)
        known = [it for it in (self.sample(schema, depth), sample) if isinstance(it, dict)]
        around: dict[str, Any] = {name: it[name] for it in known for name in it}
        for name, child in self._members(schema).items():

            def put(value: Any, name: str = name) -> Any:
                return embed({**around, name: value})

            here = f"{path}.{name}" if path else name
            is_new = (self._era, "", here) not in self._seen
            if here in _EVERYWHERE:
                self._seen.add((self._era, "", here))
            if is_new:
                yield self._field(here, child, put)
            yield from self.fields(child, here, put, around.get(name), depth + 1)
        if isinstance(items := schema.get("items"), dict):

            def put_first(value: Any) -> Any:
                return embed([value])

            yield self._field(f"{path}[]", items, put_first)
            yield from self.fields(items, f"{path}[]", put_first, None, depth + 1)

    def _members(self, schema: Schema) -> dict[str, Schema]:
        found = dict(schema.get("properties", {}))
        extra = schema.get("additionalProperties")
        if isinstance(extra, dict):
            found["<key>"] = extra
        return {name: it for name, it in found.items() if name not in ("jsonrpc", "method")}

    def _field(self, path: str, schema: Schema, embed: Callable[[Any], Any]) -> Field:
        return Field(
            path=path,
            types=frozenset(self._types(schema, 0)),
            message=json.dumps(embed(HOLE), separators=(",", ":")),
        )

    def _types(self, schema: Schema, depth: int) -> Iterator[str]:
        if "$ref" in schema and depth < _DEEPEST:
            yield from self._types(self._definitions[schema["$ref"].rpartition("/")[2]], depth + 1)
        for it in schema.get("anyOf") or schema.get("oneOf") or ():
            yield from self._types(it, depth)
        said = schema.get("type", ())
        for it in [said] if isinstance(said, str) else said:
            yield "number" if it == "integer" else it

    def sample(self, schema: Schema, depth: int = 0) -> Any:  # noqa: PLR0911
        """The smallest value that a schema allows, or nearly."""
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return schema["enum"][0]
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            return self.sample(self._definitions[name], depth + 1) if depth < _DEEPEST else {}
        for it in schema.get("anyOf") or schema.get("oneOf") or ():
            return self.sample(it, depth + 1)
        match schema.get("type"):
            case "string":
                return "x"
            case "integer" | "number":
                return 1
            case "boolean":
                return True
            case "array":
                return []
            case _:
                members = schema.get("properties", {})
                wanted = [it for it in schema.get("required", ()) if it in members]
                return {it: self.sample(members[it], depth + 1) for it in wanted}


SAMPLES: dict[str, Any] = {
    "tools/call": {"name": "mcp_bad_echo", "arguments": {"text": "x"}},
    "resources/read": {"uri": "bad://one"},
    "resources/subscribe": {"uri": "bad://one"},
    "resources/unsubscribe": {"uri": "bad://one"},
    "prompts/get": {"name": "mcp_bad_prompt", "arguments": {}},
    "completion/complete": {
        "ref": {"type": "ref/prompt", "name": "mcp_bad_prompt"},
        "argument": {"name": "a", "value": "x"},
    },
    "logging/setLevel": {"level": "info"},
    "subscriptions/listen": {"notifications": {"toolsListChanged": True}},
    "initialize": {
        "protocolVersion": HANDSHAKE,
        "capabilities": {},
        "clientInfo": {"name": "attacker", "version": "1"},
    },
    "notifications/cancelled": {"requestId": 1},
    "notifications/progress": {"progressToken": 1, "progress": 1},
}
"""Parameters that lead a request on to a server of the attacker."""


def _of_version(known: Mapping[tuple[str, str], Any], version: str) -> list[tuple[str, Any]]:
    """The methods of a version; those of tools first, so that shared fields are tried there."""
    found = [(method, kind) for (method, it), kind in known.items() if it == version]
    return sorted(found, key=lambda it: not it[0].startswith("tools/"))


def request_fields(fields: Fields) -> dict[tuple[str, str], list[Field]]:
    """The fields of each request and notification of clients, by era and method."""
    found: dict[tuple[str, str], list[Field]] = {}
    for era, version in ERAS.items():
        for known in (methods.CLIENT_REQUESTS, methods.CLIENT_NOTIFICATIONS):
            for method, kind in _of_version(known, version):
                params = dict(SAMPLES.get(method, {}))
                if era == "modern" and known is methods.CLIENT_REQUESTS:
                    params["_meta"] = ENVELOPE
                sample: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
                if known is methods.CLIENT_REQUESTS:
                    sample["id"] = 1
                found[era, method] = fields.of(schema_of(kind), sample, era=era)
    return found


def answer_fields(fields: Fields) -> dict[tuple[str, str], list[Field]]:
    """The fields of each result of servers, by era and method."""
    found: dict[tuple[str, str], list[Field]] = {}
    for era, version in ERAS.items():
        sample = {"resultType": "complete"} if era == "modern" else {}
        known = _of_version(methods.SERVER_RESULTS, version)
        # A question to a model has tools, too, and they are tried where they are listed.
        for method, kind in sorted(known, key=lambda it: it[0] != "tools/list"):
            found[era, method] = fields.of(schema_of(kind), sample, era=f"{era} answers")
    return found


def sent_fields(fields: Fields) -> dict[tuple[str, str], list[Field]]:
    """The fields of each notification and request that servers send, by era and method."""
    found: dict[tuple[str, str], list[Field]] = {}
    for era, version in ERAS.items():
        for known in (methods.SERVER_NOTIFICATIONS, methods.SERVER_REQUESTS):
            for method, kind in _of_version(known, version):
                sample: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
                if known is methods.SERVER_REQUESTS:
                    sample["id"] = 77
                found[era, method] = fields.of(schema_of(kind), sample, era=f"{era} answers")
    return found


def reply_fields(fields: Fields) -> dict[str, list[Field]]:
    """The fields of what clients of the handshake era reply to questions, by the question."""
    return {
        method: fields.of(schema_of(kind), {}, era="handshake")
        for method, kind in _of_version(methods.CLIENT_RESULTS, HANDSHAKE)
    }


def tool_fields(tool: Mapping[str, Any], fields: Fields) -> list[Field]:
    """The fields of the arguments of a tool, within a modern call of it."""
    found = fields.of(tool["inputSchema"], {}, era=f"tool {tool['name']}")
    return [
        Field(path=it.path, types=it.types, message=in_call(tool["name"], it.message))
        for it in found
    ]


def in_call(tool: str, arguments: str) -> str:
    """A modern call of a tool, with arguments that are JSON already."""
    call = {"name": tool, "arguments": "@arguments@", "_meta": ENVELOPE}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    return json.dumps(message, separators=(",", ":")).replace('"@arguments@"', arguments)


def main() -> None:
    fields = Fields()
    groups = {
        "requests": request_fields(fields),
        "answers": answer_fields(fields),
        "sent by servers": sent_fields(fields),
        "replies": {("handshake", it): found for it, found in reply_fields(fields).items()},
    }
    for group, found in groups.items():
        for (era, method), of_method in found.items():
            print(f"{group}: {era} {method}: {len(of_method)} fields")
            for it in of_method:
                print(f"    {it.path} ({', '.join(sorted(it.types)) or 'any'})")


if __name__ == "__main__":
    main()
