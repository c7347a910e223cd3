"""Hidden characters are shown, and texts of all scripts stay as they are."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegboard.model.hidden_characters import (
    LONGEST,
    MOST_SHOWN,
    all_visible,
    hidden_kinds,
    is_plain_json,
    visible,
    visible_json,
)

CORPUS = Path(__file__).parents[2].parent / "shared/trust/detect_corpus_v1.json"
SHOWN = {
    "tags": ("Translates.\U000e0041\U000e0042", "Translates.\\U000e0041\\U000e0042"),
    "tags after a plain flag": ("\U0001f3f4\U000e0041", "\U0001f3f4\\U000e0041"),
    "override": ("\u202egnp.exe", "\\u202egnp.exe"),
    "isolate in Hebrew": ("\u05d0\u2066a\u2069", "\u05d0\\u2066a\\u2069"),
    "zero-width space": ("a\u200bb", "a\\u200bb"),
    "joiner between Latin letters": ("a\u200db\u200cc", "a\\u200db\\u200cc"),
    "two joiners": ("\u0645\u200c\u200c\u0645", "\u0645\u200c\\u200c\u0645"),
    "word joiner": ("a\u2060b", "a\\u2060b"),
    "byte order mark": ("\ufeffa", "\\ufeffa"),
    "soft hyphen": ("a\xadb", "a\\u00adb"),
    "Hangul filler": ("a\u3164", "a\\u3164"),
    "selectors after an emoji": (
        "\U0001f600\ufe0f\U000e0121\U000e0122",
        "\U0001f600\ufe0f\\U000e0121\\U000e0122",
    ),
    "selector after a letter": ("a\ufe01", "a\\ufe01"),
    "private use": ("a\ue000\U000f0001", "a\\ue000\\U000f0001"),
    "escape sequence": ("\x1b[2Jgone\x9b31m", "\\u001b[2Jgone\\u009b31m"),
    "null and delete": ("\x00\x7f", "\\u0000\\u007f"),
    "line separator": ("a\u2028b", "a\\u2028b"),
    "mark of direction in Latin": ("a\u200eb", "a\\u200eb"),
    "marks in a row": ("\u05d0\u200e\u200f", "\u05d0\\u200e\\u200f"),
    "half a character": ("\ud83d", "\\ud83d"),
}
KEPT = {
    "plain": "Reads a file.\n\tAnd more.\r\n",
    "Scotland": "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
    "pirates": "\U0001f3f4\u200d\u2620\ufe0f",
    "family": "\U0001f468\u200d\U0001f469\U0001f3fd\u200d\U0001f467",
    "rainbow": "\U0001f3f3\ufe0f\u200d\U0001f308",
    "heart": "\u2764\ufe0f and \u2764\ufe0e",
    "keycap": "1\ufe0f\u20e3",
    "country": "\U0001f1eb\U0001f1f7",
    "newer emoji": "\U0001fae8",
    "Persian": "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
    "Arabic abbreviation": "1400 \u0647\u200d.",
    "Hindi": "\u0915\u094d\u200d\u0937 \u0915\u094d\u200c\u0937",
    "Sinhala": "\u0dc1\u0dca\u200d\u0dbb\u0dd3",
    "Thai": "\u0e01\u200b\u0e02",
    "Hebrew with a mark": "\u05e9\u05dc\u05d5\u05dd C++\u200e!",
    "combining": "e\u0301 Z\u0337\u0310 \u1100\u1161",
    "ideographic": "\u8fbb\U000e0100",
    "Chinese": "\u641c\u7d22\u5de5\u5177\u3002",
    "Mongolian": "\u1820\u180b",
    "spaces": "a\u00a0b\u2009c",
}


@pytest.mark.parametrize(("text", "shown"), SHOWN.values(), ids=SHOWN)
def test_what_hides_is_shown_as_an_escape(text: str, shown: str) -> None:
    assert visible(text) == all_visible(text) == shown
    assert visible(shown) == shown
    assert hidden_kinds(text)
    assert not hidden_kinds(shown)


@pytest.mark.parametrize("text", KEPT.values(), ids=KEPT)
def test_what_a_script_or_an_emoji_needs_stays(text: str) -> None:
    assert visible(text) is text or visible(text) == text
    assert hidden_kinds(text) == {}


def test_a_text_that_hides_much_ends_early_and_says_so() -> None:
    flood = visible("a\u202e" * 5_000)
    assert flood.startswith("a\\u202ea\\u202e")
    assert flood.count("\\u202e") == MOST_SHOWN
    assert flood.endswith("a… (7999 more characters are left out, because of hidden ones)")
    long = visible("\u202e" + "a" * LONGEST)
    assert len(long) < LONGEST + 100
    assert long.endswith("a… (1 more characters are left out, because of hidden ones)")
    assert visible("a" * 2 * LONGEST) == "a" * 2 * LONGEST
    most = visible("\u202e" * MOST_SHOWN + "end")
    assert most == all_visible("\u202e" * MOST_SHOWN + "end")
    assert all_visible("\u202e" * 5_000) == "\\u202e" * 5_000


def test_json_is_shown_in_keys_and_values_and_is_the_same_object_if_nothing_hides() -> None:
    plain = {"a": ["b", {"c": 1.5}], "d": None}
    assert visible_json(plain) is plain
    hiding = {"a\u200b": ["b", {"c": "\u202e"}], "d": True}
    assert visible_json(hiding) == {"a\\u200b": ["b", {"c": "\\u202e"}], "d": True}


@given(st.text())
def test_json_that_counts_as_plain_hides_nothing(text: str) -> None:
    encoded = json.dumps({"text": text}, ensure_ascii=False).encode("utf-8", "surrogatepass")
    if is_plain_json(encoded):
        assert visible(text) == text


@given(st.text())
def test_an_escaped_text_hides_nothing_more(text: str) -> None:
    once = visible(text)
    assert visible(once) == once


@pytest.mark.skipif(not CORPUS.exists(), reason="The labelled definitions are not here.")
def test_each_labelled_definition_that_smuggles_characters_is_shown_and_no_benign_one_changes() -> (
    None
):
    entries = json.loads(CORPUS.read_text("utf-8"))["entries"]
    for entry in entries:
        text = entry["tool"]["description"]
        smuggles = entry["category"] == "unicode_smuggling" and entry["label"] == "malicious"
        assert (visible(text) != text) is smuggles, entry["id"]
