"""JSON-RPC messages as bytes."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegboard.gateway import RpcError
from pegboard.server.jsonrpc import as_event, encode, result_message
from pegboard.server.message_limits import MOST_LEVELS, MOST_VALUES, BodyTooLargeError, read_json

UNREADABLE = [
    f"[{'0,' * MOST_VALUES}0]",
    "[" * 250 + "]" * 250,
    '"\\ud800"',
    "1e400",
    "NaN",
]
"""Values for which a message is refused, although it is known what it was to be."""

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(VALUES)
def test_what_is_written_can_be_read(value: Any) -> None:
    try:
        text = encode(value)
    except RecursionError:
        return
    assert json.loads(text) == value


@given(VALUES)
def test_what_is_written_is_one_line(value: Any) -> None:
    line = as_event(result_message(1, {"value": value}))
    assert line.count(b"\n") == 3
    assert line.endswith(b"\r\n\r\n")


def nested(levels: int) -> bytes:
    return b'{"a":[' * (levels // 2) + b"1" + b"]}" * (levels // 2)


def test_as_deep_as_permitted_is_read() -> None:
    assert isinstance(read_json(nested(MOST_LEVELS)), dict)


@pytest.mark.parametrize("levels", [MOST_LEVELS + 2, 5000, 90_000])
def test_deeper_is_refused(levels: int) -> None:
    with pytest.raises(RpcError) as caught:
        read_json(nested(levels))
    assert caught.value.code == -32700


def test_many_brackets_side_by_side_are_no_depth() -> None:
    assert len(read_json(b"[" + b"[]," * 5000 + b"[]]")) == 5001


@pytest.mark.parametrize(
    "text", ["a,b" * MOST_VALUES, "[{" * MOST_VALUES, '\\"\\\\,[' * MOST_VALUES, '"{' * MOST_VALUES]
)
def test_what_stands_in_a_text_is_no_value(text: str) -> None:
    assert read_json(encode({text: [text]})) == {text: [text]}


@pytest.mark.parametrize(
    "value",
    [
        [1] * MOST_VALUES,
        ["a"] * MOST_VALUES,
        {str(number): "\\" for number in range(MOST_VALUES)},
        [{"": ""}] * (MOST_VALUES // 2),
    ],
)
def test_as_many_values_as_permitted_are_read_and_no_more(value: Any) -> None:
    assert read_json(encode(value)) == value
    with pytest.raises(BodyTooLargeError, match=str(MOST_VALUES)):
        read_json(encode([value, 1]))


@pytest.mark.parametrize(
    "number", ["1e300", "1E-320", "5.1e+308", "7" * 201, "0." + "0" * 200 + "1"]
)
def test_numbers_that_are_slow_to_decode_are_refused(number: str) -> None:
    body = f'{{"id": 1, "method": "x", "e": [{",".join([number] * 1_001)}]}}'.encode()
    with pytest.raises(BodyTooLargeError) as caught:
        read_json(body)
    assert caught.value.request_id == 1


def test_few_of_those_numbers_and_texts_that_look_like_them_are_fine() -> None:
    text = "1e300 " * 2_000 + '"' + "7" * 300 + "\\"
    value = [1e300] * 1_000 + [text, 1e-99, 10**199] * 500
    assert read_json(encode(value)) == value


def test_half_a_surrogate_pair_is_written_as_an_escape() -> None:
    assert encode({"a": "\ud800"}) == b'{"a":"\\ud800"}'


@pytest.mark.parametrize(
    "body", [b"", b"{", b"NaN", b'"\xff"', b'"\\ud800"', b"\xef\xbb\xbf{}", b"1 2", b"9" * 5000]
)
def test_what_is_no_json_is_refused(body: bytes) -> None:
    with pytest.raises(RpcError) as caught:
        read_json(body)
    assert caught.value.code == -32700
