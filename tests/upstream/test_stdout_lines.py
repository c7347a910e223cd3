"""Lines come out as they went in, however the bytes were cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegboard.upstream.stdio.pipes import Lines, LineTooLongError

texts = st.lists(st.sampled_from([b"", b"a", b"bc", b"\n", b"\r\n", b"\n\n", b"d\ne", b"\xff"]))


@given(texts)
def test_the_lines_do_not_depend_on_where_the_bytes_were_cut(chunks: list[bytes]):
    lines = Lines(limit=1000)
    found = [line for chunk in chunks for line in lines.feed(chunk)]
    assert found == b"".join(chunks).split(b"\n")[:-1]


@given(st.lists(st.binary(max_size=4), max_size=12), st.integers(0, 8))
def test_exactly_the_lines_over_the_limit_are_refused(chunks: list[bytes], limit: int):
    lines = Lines(limit=limit)
    too_long = any(len(line) > limit for line in b"".join(chunks).split(b"\n"))
    if too_long:
        with pytest.raises(LineTooLongError):
            for chunk in chunks:
                lines.feed(chunk)
    else:
        for chunk in chunks:
            lines.feed(chunk)
