import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegboard.model.content import truncate_text


def test_a_cut_text_says_how_much_of_it_is_shown() -> None:
    text = "x" * 12_345
    assert truncate_text(text, 5000) == "x" * 5000 + "… [truncated: 5000 of 12345 characters shown]"


@given(st.text(), st.integers(0, 40))
def test_a_text_that_fits_stays_whole_and_a_longer_one_keeps_exactly_its_beginning(
    text: str, limit: int
) -> None:
    shown = truncate_text(text, limit)
    if len(text) <= limit:
        assert shown == text
    else:
        mark = f"… [truncated: {limit} of {len(text)} characters shown]"
        assert shown.removesuffix(mark) == text[:limit]


def test_characters_outside_of_the_basic_plane_are_not_torn() -> None:
    assert truncate_text("😀😀😀", 2).startswith("😀😀…")


def test_a_negative_limit_is_refused() -> None:
    with pytest.raises(ValueError, match="must not be negative"):
        truncate_text("text", -1)
