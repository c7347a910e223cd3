"""The table of words: as it ships, and as others may damage it."""

from pathlib import Path

import numpy as np
import pytest

from pegboard.errors import SearchDataError
from pegboard.search.word_table import (
    SHIPPED_TABLE,
    WordTable,
    main_directions,
    open_table,
    write_table,
)


def cosine(one: str, other: str) -> float:
    table = open_table()
    [first], [second] = table.find(one), table.find(other)
    rows = table.vectors[[first, second]].astype(np.float64)
    return float(rows[0] @ rows[1] / np.linalg.norm(rows[0]) / np.linalg.norm(rows[1]))


def test_the_shipped_table_is_small_enough_to_ship() -> None:
    assert SHIPPED_TABLE.stat().st_size <= 25_000_000


def test_words_that_mean_nearly_the_same_are_near_in_both_languages() -> None:
    assert cosine("email", "邮件") > cosine("email", "天气")
    assert cosine("weather", "天气") > cosine("weather", "邮件")
    assert cosine("photo", "picture") > cosine("photo", "invoice")


def test_every_word_is_found_in_its_own_row() -> None:
    table = open_table()
    assert len(table.words) == len(table.rows) == len(table.vectors) == len(table.importance)
    for row in range(0, len(table.words), 997):
        assert table.find(table.words[row]) == (row,)


def test_inflected_and_compound_words_are_found_by_their_parts() -> None:
    table = open_table()
    assert table.find("zzqx") == ()
    english = [word for word in table.words[:5_000] if word.isalpha() and len(word) > 4]
    [word, *_] = [it for it in english if it[-1] != "e" and f"{it}s" not in table.rows]
    assert table.find(f"{word}s") == table.find(word)
    assert table.find("weatherinvoice") == (table.rows["weather"], table.rows["invoice"])


def test_near_words_are_english_and_come_nearest_first() -> None:
    table = open_table()
    near = table.near(table.rows["邮件"])
    assert all(word.isascii() for word, _ in near)
    assert [nearness for _, nearness in near] == sorted((it for _, it in near), reverse=True)


@pytest.mark.parametrize(
    "content", [b"", b"nonsense", b"pegboard words 1\n", b"pegboard words 1\n\x02\0\0\0{}"]
)
def test_a_damaged_table_is_an_error_that_names_it(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.table"
    path.write_bytes(content)
    with pytest.raises(SearchDataError, match=r"broken\.table.*PEGBOARD_WORD_TABLE"):
        WordTable(path)


def test_a_cut_table_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "cut.table"
    path.write_bytes(SHIPPED_TABLE.read_bytes()[:100_000])
    with pytest.raises(SearchDataError, match="cut"):
        WordTable(path)


def test_the_environment_names_another_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PEGBOARD_WORD_TABLE", str(tmp_path / "none.table"))
    with pytest.raises(SearchDataError, match=r"none\.table"):
        open_table()


def test_the_shipped_table_has_its_directions_with_it() -> None:
    table = open_table()
    computed = main_directions(table.centroids)
    assert np.abs(np.vecdot(table.directions.T, computed.T)) == pytest.approx(1, abs=1e-3)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "small.table"
    parts = {
        "vectors": np.array([[1, 0], [0, 1]], np.int8),
        "weights": np.ones(2, np.float32),
        "query_weights": np.ones(2, np.float32),
        "importance": np.ones(2, np.float32),
        "turn": np.eye(2, dtype=np.float32),
        "centroids": np.eye(2, dtype=np.float32),
        "neighbours": np.array([[1], [0]], np.uint16),
        "closeness": np.array([[128], [128]], np.uint8),
    }
    write_table(path, ["one", "two"], parts, {"version": "x", "fields": {"name": 1.0}})
    table = WordTable(path)
    assert (table.version, table.fields, table.words) == ("x", {"name": 1.0}, ["one", "two"])
    for name, array in parts.items():
        assert np.array_equal(getattr(table, name), array), name
    assert table.directions.shape == (2, 0), "an older table has none in it"
