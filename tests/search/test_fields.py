import msgspec
from hypothesis import given
from hypothesis import strategies as st

from pegboard.model import Annotations, LazyTool, Tool
from pegboard.search.searcher import Match
from pegboard.search.text.fields import find_matches, read_text, stored_schema
from pegboard.search.text.words import query_words

SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "Where.", "enum": ["Paris", "Rome", None]},
        "when": {"anyOf": [{"$ref": "#/$defs/Span"}, {"type": "null"}]},
        "stops": {"type": "array", "items": {"properties": {"name": {"description": "Its name."}}}},
        "raw": True,
    },
    "$defs": {
        "Span": {"properties": {"start": {"description": "First day."}, "rest": {"$ref": "#"}}}
    },
}
json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["properties", "items", "anyOf", "enum", "description", "$ref", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


def test_every_field_has_its_text() -> None:
    tool = Tool(
        name="get_weather",
        description="Tells the weather.",
        input_schema=SCHEMA,
        annotations=Annotations(title="Weather"),
        server="meteo",
        tags=("sky", "rain"),
        category="nature",
    )
    text = read_text(tool)
    assert (text.name, text.title, text.description) == (
        "get_weather",
        "Weather",
        "Tells the weather.",
    )
    assert text.parameters == "city when start rest stops name raw"
    assert text.details == "Where. Paris Rome First day. Its name."
    assert (text.server, text.tags, text.category) == ("meteo", "sky rain", "nature")


def test_a_stored_schema_stays_as_it_is_stored() -> None:
    raw = msgspec.Raw(msgspec.json.encode(SCHEMA))
    tool = LazyTool(name="get_weather", input_schema=raw)  # pyright: ignore[reportArgumentType]
    assert read_text(tool) == read_text(Tool(name="get_weather", input_schema=SCHEMA))
    assert isinstance(stored_schema(tool), msgspec.Raw)


def test_a_damaged_schema_is_none() -> None:
    tool = LazyTool(name="it", input_schema=msgspec.Raw(b"{"))  # pyright: ignore[reportArgumentType]
    assert read_text(tool).parameters == ""


def test_a_schema_that_refers_to_itself_or_is_huge_is_read_in_part() -> None:
    loop = {"$ref": "#/$defs/A", "$defs": {"A": {"allOf": [{"$ref": "#/$defs/A"}] * 3}}}
    assert read_text(Tool(name="loop", input_schema=loop)).parameters == ""
    wide = {"properties": {f"parameter_{it}": {} for it in range(100_000)}}
    assert len(read_text(Tool(name="wide", input_schema=wide)).parameters) <= 10_000


@given(st.dictionaries(st.sampled_from(["properties", "items", "$ref", "anyOf"]), json))
def test_no_schema_is_an_error(schema: dict[str, object]) -> None:
    read_text(Tool(name="it", input_schema=schema))


def test_matches_say_which_words_are_in_which_field() -> None:
    tool = Tool(
        name="get_weather",
        description="Tells how warm the days are.",
        input_schema={"properties": {"city": {"description": "The warm place."}}},
        tags=("forecasts",),
    )
    words = query_words("Weather forecast for warmer cities, day by day")
    assert find_matches(tool, words) == (
        Match(field="name", words=("weather",)),
        Match(field="description", words=("day",)),
        Match(field="parameters", words=("cities",)),
        Match(field="tags", words=("forecast",)),
    )
    assert find_matches(tool, query_words("something else")) == ()
