"""Server-sent events, however the network cuts them."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegboard.upstream.http.event_stream import Event, EventReader, EventTooLargeError

EVENTS = st.lists(
    st.builds(
        Event,
        st.sampled_from(["message", "other"]),
        st.binary(min_size=1, max_size=9).map(lambda it: it.translate(None, b"\r\n")),
        st.none() | st.sampled_from(["1", "x y"]),
        st.none() | st.integers(0, 10_000),
    ),
    max_size=5,
)


@given(EVENTS, st.sampled_from([b"\n", b"\r\n", b"\r"]), st.lists(st.integers(0, 400)))
def test_events_do_not_depend_on_how_the_stream_is_cut(
    events: list[Event], end: bytes, cuts: list[int]
) -> None:
    lines: list[bytes] = [b": hello"]
    for it in events:
        lines += [b"event: " + it.kind.encode(), b"data: " + it.data]
        lines += [] if it.id is None else [b"id:" + it.id.encode()]
        lines += [] if it.retry is None else [b"retry: %d" % it.retry]
        lines += [b""]
    stream = b"".join(line + end for line in lines)
    places = sorted({0, len(stream), *(it % (len(stream) + 1) for it in cuts)})
    reader = EventReader(largest=10_000)
    read = [it for a, b in pairwise(places) for it in reader.feed(stream[a:b])]
    assert read == events


def test_a_long_event_in_many_pieces_is_put_together_once() -> None:
    reader = EventReader(largest=1 << 25)
    piece = b"x" * 1000
    read = [it for _ in range(20_000) for it in reader.feed(piece)]
    assert read == reader.feed(b"\n\n") == []
    reader.feed(b"data: ")
    for _ in range(20_000):
        assert reader.feed(piece) == []
    assert reader.feed(b"\r\n\r\n") == [Event("message", piece * 20_000)]


def test_an_event_has_a_limit() -> None:
    reader = EventReader(largest=100)
    with pytest.raises(EventTooLargeError):
        for _ in range(20):
            reader.feed(b"data: 0123456789\n")


def test_a_byte_order_mark_before_the_events_is_none_of_them() -> None:
    assert EventReader(largest=100).feed(b"\xef\xbb\xbfdata: x\n\n") == [Event("message", b"x")]
