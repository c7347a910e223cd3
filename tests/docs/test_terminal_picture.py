"""The picture of a terminal session shows what the commands print today."""

import re
from html import unescape

import pytest
from scripts.terminal_picture import COMMANDS, PICTURE, drawing, recorded


def words_in(picture: str) -> list[str]:
    """Return the texts of a picture, with times and figures blanked out."""
    texts = [unescape(it) for it in re.findall(r"<text [^>]*>([^<]*)</text>", picture)]
    return [re.sub(r"[\d,.]+", "0", it.replace("\xa0", " ")).strip() for it in texts]


@pytest.mark.timeout(120)  # five commands start two servers several times
def test_the_picture_shows_what_the_commands_print() -> None:
    shown = words_in(PICTURE.read_text("utf-8"))
    assert [it for it in COMMANDS if re.sub(r"[\d,.]+", "0", it) not in shown] == []
    volatile = {"Wednesday", "Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday"}

    def steady(words: list[str]) -> list[str]:
        return [it for it in words if not any(day in it for day in volatile) and "is_dst" not in it]

    assert steady(words_in(drawing(recorded()))) == steady(shown)
