"""The texts of tools as pieces: nothing is lost, and no word is cut."""

from hypothesis import given
from hypothesis import strategies as st

from pegboard import Tool
from pegboard.search.text.fields import FIELDS, ToolText, read_text
from pegboard.search.text.postings import weigh
from pegboard.search.text.tool_runs import PIECES, ToolRuns, part_of, pieces_of, read_once
from pegboard.search.text.words import words_of

words = st.sampled_from(["mail", "send.", "file!", "天气。", "查询，", "\n", "x" * 300])  # noqa: RUF001 - Chinese
texts = st.lists(words, max_size=200).map(" ".join)


def text_of(description: str = "", *, parameters: str = "", details: str = "") -> ToolText:
    return ToolText("send_mail", "", description, parameters, details, "", "", "")


@given(texts, texts, texts)
def test_the_pieces_of_a_field_are_the_field(one: str, two: str, three: str) -> None:
    text = text_of(one, parameters=two, details=three)
    pieces = list(zip(PIECES.values(), pieces_of(text), strict=True))
    for field in FIELDS:
        whole: str = getattr(text, field)
        parts = [piece for of, piece in pieces if of == field]
        assert "".join(parts) == whole
        found = [word for part in parts for word in words_of(part, prose=False)]
        assert found == list(words_of(whole, prose=False))


def test_the_first_sentence_counts_by_itself_and_the_rest_only_so_far() -> None:
    text = text_of("Sends a mail. To anybody. " + "word " * 200)
    assert part_of(text, "first") == "Sends a mail."
    assert part_of(text, "description").startswith("Sends a mail. To anybody. word")
    assert 400 <= len(part_of(text, "description")) < 410
    assert part_of(text, "name") == "send_mail"


def test_texts_are_cut_once_for_all_who_read_them() -> None:
    read = ToolRuns([read_text(Tool(name="send_mail", description="Sends a mail."))])
    assert read_once(read) is read
    assert read.chunks is read.chunks
    assert set(weigh(read).vocabulary) == {"send", "mail"}
    assert len(read) == 1
    assert read[0].name == "send_mail"
