import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegboard.search.text.words import SEPARATOR, query_words, runs_of, words_of


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("get_user-info.now", ["get", "user", "info", "now"]),
        ("HTTPServer", ["http", "server", "httpserver"]),
        ("parseJSONBody", ["pars", "json", "bodi"]),
        ("PDFs and URLs", ["pdf", "and", "url"]),
        ("GitHub", ["git", "hub", "github"]),
        ("mp3 to S3", ["mp", "3", "mp3", "to", "3", "s3"]),
        ("running runs", ["run", "run"]),
        ("résumé Straße Łódź", ["resum", "strass", "lodz"]),
        ("re\u0301sume\u0301", ["resum"]),
        ("ﬁle ① ½", ["file", "1", "1", "2"]),
        ("Привет, МИР", ["привет", "мир"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("タワー", ["タワ", "ワー"]),
        ("안녕하세요", ["안녕", "녕하", "하세", "세요"]),
        ("ครับ", ["คร", "รั", "ับ"]),
        ("a b c", []),
        ("😀 \x00 \ud800", []),
    ],
)
def test_text_becomes_words(text: str, words: list[str]) -> None:
    assert list(words_of(text, prose=False)) == words


def test_prose_and_queries_drop_stop_words() -> None:
    text = "Please show me the weather of Paris, and the weather of Rome"
    assert list(words_of(text, prose=True)) == ["weather", "pari", "weather", "rome"]
    assert query_words(text).counts == {"weather": 2, "pari": 1, "rome": 1}


def test_a_query_of_stop_words_keeps_them() -> None:
    assert query_words("list all").counts == {"list": 1, "all": 1}


def test_a_query_remembers_how_its_words_were_spelled() -> None:
    assert query_words("Running GitHub").spelled == {
        "run": "running",
        "git": "git",
        "hub": "hub",
        "github": "github",
    }


@pytest.mark.covers("R-REG-15", "R-REG-41")
def test_chinese_text_has_words() -> None:
    one, other = (set(words_of(text, prose=True)) for text in ("查询天气预报", "明天的天气"))
    assert "天气" in other
    assert "查询" in one
    assert one & other


def test_a_query_has_no_more_words_than_anybody_means() -> None:
    assert len(query_words(" ".join(f"word{it}" for it in range(200_000))).counts) == 512
    assert len(query_words("x" * 1_000_000).counts) == 1


@given(st.text())
def test_no_text_is_an_error(text: str) -> None:
    for word in words_of(text, prose=False):
        assert word
        assert len(word) <= 40
        assert not set(word) & set(" \n\x01")
    query_words(text)


@given(st.lists(st.text(), min_size=1, max_size=5))
def test_texts_that_are_cut_together_give_the_runs_of_each(texts: list[str]) -> None:
    each: list[str] = []
    for text in texts:
        each += [SEPARATOR, *runs_of([text])]
    assert runs_of(texts) == each[1:]


def test_more_marks_than_a_letter_has_are_left_out() -> None:
    [word] = query_words("\u0436" + "\u0315\u0316" * 4000).spelled.values()
    assert len(word) <= 33


def test_characters_that_stand_for_sentences_make_no_book() -> None:
    assert sum(query_words("\ufdfa" * 8192).counts.values()) < 8192
