"""Hypothesis strategies for schemas as real servers write them, and for values."""

from typing import Any

from hypothesis import strategies as st

Json = dict[str, Any]

NAMES = [
    "path",
    "query",
    "filter[id]",
    "$top",
    "1st",
    "class",
    "größe",
    "a.b",
    "max-size",
    "x" * 70,
]
LEGAL_NAMES = ["path", "query", "limit", "mode", "kind"]
SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "bb", "x-y"])


def values(names: list[str]) -> st.SearchStrategy[Any]:
    """Any JSON value whose members have these names."""
    return st.recursive(
        SCALARS,
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(names), inner, max_size=3)
        ),
        max_leaves=8,
    )


def arguments(names: list[str]) -> st.SearchStrategy[Json]:
    return st.dictionaries(st.sampled_from(names), values(names), max_size=4)


@st.composite
def described(draw: st.DrawFn, base: st.SearchStrategy[Json]) -> Json:
    schema = dict(draw(base))
    if draw(st.booleans()):
        schema["description"] = draw(st.sampled_from(["What it is.", "größer 😀", "a\nb"]))
    if draw(st.integers(0, 4)) == 0:
        schema["default"] = draw(SCALARS)
    return schema


STRINGS = st.fixed_dictionaries(
    {"type": st.just("string")},
    optional={
        "minLength": st.integers(0, 2),
        "format": st.sampled_from(["date-time", "uuid", "json", "enum"]),
        "pattern": st.just("^[a-z]*$"),
    },
)
NUMBERS = st.fixed_dictionaries(
    {"type": st.sampled_from(["integer", "number"])},
    optional={"minimum": st.integers(-2, 1), "exclusiveMaximum": st.integers(0, 3)},
)
ENUMS = st.lists(SCALARS, min_size=1, max_size=4, unique_by=repr).map(lambda it: {"enum": it})
TYPE_LISTS = st.lists(
    st.sampled_from(["string", "integer", "boolean", "null", "object", "array"]),
    min_size=1,
    max_size=3,
    unique=True,
).map(lambda kinds: {"type": kinds})
LEAVES = described(
    STRINGS
    | NUMBERS
    | ENUMS
    | TYPE_LISTS
    | st.just({"type": "boolean"})
    | st.just({"type": "array"})
    | st.just({"type": "object"})
    | st.just({})
    | SCALARS.map(lambda value: {"const": value})
    | st.just({"type": ["string", "null"], "enum": ["a", None]})
)


def objects(
    inner: st.SearchStrategy[Any], names: list[str], *, closed: bool = False
) -> st.SearchStrategy[Json]:
    @st.composite
    def build(draw: st.DrawFn) -> Json:
        properties = draw(st.dictionaries(st.sampled_from(names), inner, max_size=4))
        schema: Json = {"type": "object", "properties": properties}
        if properties and draw(st.booleans()):
            chosen = st.lists(st.sampled_from(sorted(properties)), unique=True)
            schema["required"] = draw(chosen)
        extra = False if closed else draw(st.sampled_from([None, True, False, {"type": "string"}]))
        if extra is not None:
            schema["additionalProperties"] = extra
        return schema

    return build()


def nested(names: list[str], leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    def extend(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        several = st.lists(inner, min_size=1, max_size=3)
        return described(
            objects(inner, names)
            | inner.map(lambda it: {"type": "array", "items": it})
            | several.map(lambda them: {"type": "array", "prefixItems": them})
            | several.map(lambda them: {"anyOf": them})
            | several.map(lambda them: {"oneOf": them})
            | several.map(lambda them: {"allOf": them})
        )

    return st.recursive(leaves, extend, max_leaves=12)


REFERENCES = st.sampled_from(["#/$defs/a", "#/$defs/b", "#/definitions/c", "#", "#/properties/q"])


def roots(names: list[str], *, pointless: bool) -> st.SearchStrategy[Json]:
    """The input schema of a tool, with references that may go round in circles.

    Pointless ones lead back to themselves without a step into the data; validators choke on them.
    """
    leaves = LEAVES | described(REFERENCES.map(lambda ref: {"$ref": ref})) | st.booleans()
    inner = nested(names, leaves)
    shared = inner if pointless else inner.map(lambda it: {"type": "array", "items": it})
    root = objects(inner, names)
    parts = st.lists(
        objects(LEAVES, names) | st.just({"required": [names[0]]}) | st.just({"type": "null"}),
        min_size=1,
        max_size=3,
    )

    @st.composite
    def build(draw: st.DrawFn) -> Json:
        schema = draw(root)
        schema["properties"]["q"] = draw(shared)
        schema["$defs"] = {"a": draw(shared), "b": draw(shared)}
        schema["definitions"] = {"c": draw(shared)}
        for key in ("anyOf", "oneOf", "allOf"):
            if draw(st.integers(0, 5)) == 0:
                schema[key] = draw(parts)
        return schema

    return build()


ROOTS = roots(NAMES, pointless=True)
LEGAL_ROOTS = roots(LEGAL_NAMES, pointless=False)
PLAIN = nested(LEGAL_NAMES, LEAVES)
PLAIN_OBJECTS = objects(PLAIN, LEGAL_NAMES)
# Several at once: most of what is drawn does not fit, and says nothing.
SEVERAL_ARGUMENTS = st.lists(arguments([*LEGAL_NAMES, "q"]), min_size=1, max_size=6)
