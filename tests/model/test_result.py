import base64
import copy
import dataclasses
import datetime
import pickle
from typing import Any

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegboard import (
    Audio,
    EmbeddedResource,
    Image,
    ResourceContents,
    ResourceLink,
    Text,
    ToolExecutionError,
    ToolResult,
)

DATA = base64.b64encode(b"12345").decode()


class Model(pydantic.BaseModel):
    when: datetime.date


@dataclasses.dataclass
class Point:
    x: int


@pytest.mark.parametrize(
    ("value", "text", "structured"),
    [
        (None, "", None),
        ("hi", "hi", None),
        (3, "3", 3),
        (True, "true", True),
        ([1, 2], "[1,2]", [1, 2]),
        ({"a": {"b": 1}}, '{"a":{"b":1}}', {"a": {"b": 1}}),
        (Point(1), '{"x":1}', {"x": 1}),
        (Model(when=datetime.date(2026, 1, 2)), '{"when":"2026-01-02"}', {"when": "2026-01-02"}),
        (datetime.date(2026, 1, 2), "2026-01-02", None),
    ],
)
def test_any_value_becomes_a_result_and_is_given_back_unchanged(
    value: Any, text: str, structured: Any
) -> None:
    result = ToolResult.of(value)
    assert result.value() is value
    assert result.text() == text
    assert result.structured_content == structured
    assert not result.is_error


def test_blocks_are_kept_whole_in_the_form_of_the_protocol() -> None:
    contents = ResourceContents(uri="file:///b", mime_type="text/plain", text="inside")
    with pytest.raises(TypeError):
        ResourceContents(uri="u", meta={"a": [1]}).meta["a"].append(2)  # pyright: ignore[reportOptionalSubscript]
    blob = ResourceContents(uri="file:///c", blob=DATA)
    blocks = [
        Text(text="one", annotations={"audience": ["user"]}),
        Image(data=DATA, mime_type="image/png", meta={"k": 1}),
        Audio(data=DATA, mime_type="audio/wav"),
        ResourceLink(uri="file:///a", name="a", title="A"),
        EmbeddedResource(resource=contents),
        EmbeddedResource(resource=blob),
    ]
    result = ToolResult.of(blocks)
    assert result.value() is blocks
    assert result.blocks() == [
        {"type": "text", "text": "one", "annotations": {"audience": ["user"]}},
        {"type": "image", "data": DATA, "mimeType": "image/png", "_meta": {"k": 1}},
        {"type": "audio", "data": DATA, "mimeType": "audio/wav"},
        {"type": "resource_link", "uri": "file:///a", "name": "a", "title": "A"},
        {
            "type": "resource",
            "resource": {"uri": "file:///b", "mimeType": "text/plain", "text": "inside"},
        },
        {"type": "resource", "resource": {"uri": "file:///c", "blob": DATA}},
    ]
    assert result.text().splitlines() == [
        "one",
        "[image: image/png, 5 bytes]",
        "[audio: audio/wav, 5 bytes]",
        "[link file:///a: A]",
        "inside",
        "[resource file:///c: unknown type, 5 bytes]",
    ]


@given(st.lists(st.text()))
def test_the_text_contains_every_text_block(texts: list[str]) -> None:
    result = ToolResult(content=tuple(Text(text=text) for text in texts))
    assert result.text() == "\n".join(texts)


def test_a_result_from_a_wire_gives_its_most_direct_value() -> None:
    text = Text(text="t")
    image = Image(data=DATA, mime_type="image/png")
    assert ToolResult(content=(text,), structured_content={"a": 1}).value() == {"a": 1}
    assert ToolResult(content=(text,)).value() == "t"
    assert ToolResult(content=(text, image)).value() == [text, image]
    assert ToolResult().value() is None
    assert ToolResult(structured_content=[1]).text() == "[1]"


def test_bytes_are_carried_as_an_embedded_resource() -> None:
    result = ToolResult.of(b"12345")
    assert result.value() == b"12345"
    assert result.blocks()[0]["resource"]["blob"] == DATA


def test_an_object_without_a_json_form_is_shown_as_text() -> None:
    value = object()
    result = ToolResult.of(value)
    assert result.value() is value
    assert result.text() == str(value)


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


class Sulky:
    def __str__(self) -> str:
        raise OSError


@pytest.mark.parametrize(
    "value",
    [10**5000, {"a": "\ud800"}, deep(900), deep(5000), Sulky(), {"x": float("nan")}, {1, 2}],
    ids=["huge", "surrogate", "deep", "deeper", "sulky", "nan", "set"],
)
def test_nothing_a_tool_returns_keeps_it_from_being_a_result(value: Any) -> None:
    result = ToolResult.of(value)
    assert result.value() is value
    assert isinstance(result.text(), str)
    msgspec.json.encode(result.structured_content)


def test_a_result_survives_pickling() -> None:
    result = ToolResult(structured_content={"a": 1})
    assert pickle.loads(pickle.dumps(result)).value() == {"a": 1}
    assert copy.deepcopy(result).value() == {"a": 1}


def test_a_result_stays_as_it_is_and_cannot_be_changed() -> None:
    result = ToolResult(content=(Text(text="no"),), is_error=True, structured_content={"a": [1]})
    assert ToolResult.of(result) is result
    with pytest.raises(AttributeError):
        result.is_error = False  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(TypeError):
        result.structured_content["a"].append(2)


def test_a_reported_failure_can_be_raised() -> None:
    good = ToolResult.of("fine")
    assert good.raise_for_error() is good
    failure = ToolResult(content=(Text(text="broken"),), is_error=True)
    with pytest.raises(ToolExecutionError, match="broken") as raised:
        failure.raise_for_error()
    assert raised.value.result is failure


def test_what_came_over_a_wire_is_not_copied() -> None:
    raw = {"content": [], "structuredContent": {"rows": [{}]}}
    result = ToolResult(structured_content=raw["structuredContent"], wire=raw)
    assert result.structured_content is raw["structuredContent"]
