"""Searching by words and meaning, by an embedder, and not answering."""

import numpy as np
import pytest

from pegboard import CatalogChange, Tool
from pegboard.search import Query
from pegboard.search.methods.bm25 import BM25
from pegboard.search.methods.embedding import Embedding
from pegboard.search.methods.hybrid import Hybrid

TOOLS = (
    Tool(name="send_email", description="Send an email message to a person.", server="post"),
    Tool(name="get_weather", description="Tell the weather forecast of a city.", category="nature"),
    Tool(name="create_invoice", description="Create an invoice for a customer.", category="money"),
    Tool(name="resize_image", description="Change the size of a picture.", server="atelier"),
    Tool(name="set_alarm", description="Set an alarm that rings at a time.", server="clock"),
    Tool(name="写文件", description="将内容写入指定文件。", server="disk"),
)


def fed(searcher: Hybrid | Embedding | BM25) -> Hybrid | Embedding | BM25:
    searcher.apply(CatalogChange(revision=1, added=TOOLS))
    return searcher


@pytest.mark.covers("R-REG-15")
@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("will it rain tomorrow", "get_weather"),
        ("bill a client", "create_invoice"),
        ("明天早上七点的闹钟", "set_alarm"),
        ("给同事发送电子邮件", "send_email"),
        ("make this photo smaller", "resize_image"),
        ("把内容保存到文件", "写文件"),
    ],
)
def test_what_is_meant_is_found_in_both_languages(text: str, name: str) -> None:
    assert fed(Hybrid()).search(Query(text=text)).hits[0].tool.name == name


def test_a_chinese_word_that_no_tool_has_stands_for_its_english_one() -> None:
    [hit, *_] = fed(Hybrid()).search(Query(text="闹钟", explain=True)).hits
    assert hit.tool.name == "set_alarm"
    assert hit.parts is not None
    assert hit.parts["words"] > 0


def test_the_parts_add_up_to_the_score() -> None:
    query = Query(text="send a message", explain=True, boost=lambda name: float(name[0] == "s"))
    for hit in fed(Hybrid()).search(query).hits:
        assert hit.parts is not None
        assert sum(hit.parts.values()) == pytest.approx(hit.score, abs=1e-6)


@pytest.mark.parametrize("text", ["qwrtz plmk vbnx", "xxyyzz", "asdfgh jklqw zxcv"])
@pytest.mark.parametrize("make", [Hybrid, Embedding, BM25])
def test_nonsense_is_answered_with_nothing(make: type[Hybrid], text: str) -> None:
    assert fed(make()).search(Query(text=text)).hits == ()


@pytest.mark.parametrize(
    "text",
    ["walrus thistle pewter lagoon", "trellis mongoose gingham", "osprey vicar samovar quilt"],
)
def test_words_that_have_nothing_to_do_with_each_other_or_any_tool_find_nothing(text: str) -> None:
    assert fed(Hybrid()).search(Query(text=text)).hits == ()


@pytest.mark.parametrize("text", ["mail", "weather", "invoices", "picture size", "alarm", "文件"])
def test_one_word_is_enough_to_make_sense(text: str) -> None:
    assert fed(Hybrid()).search(Query(text=text)).hits


def test_a_script_that_the_table_does_not_know_is_searched_by_its_letters() -> None:
    searcher = Hybrid()
    tool = Tool(name="turn_on", description="Aircon, 에어컨 실행, 거실.")
    searcher.apply(CatalogChange(revision=1, added=(*TOOLS, tool)))
    assert searcher.search(Query(text="hey do 거실 에어컨 실행")).hits[0].tool == tool


def test_stop_words_are_not_looked_for_as_their_neighbours() -> None:
    def weights(text: str) -> set[str]:
        searcher = Hybrid()
        mine = Tool(name="me", description="Wants needs wishes hopes desires likes.")
        searcher.apply(CatalogChange(revision=1, added=(*TOOLS, mine)))
        return set(searcher.prepare(Query(text=text), searcher.index.snapshot).weights)

    assert weights("I would like you to have an email") == weights("email")
    assert weights("我想要发送") == weights("发送")


def test_when_nothing_fits_the_nearest_places_are_named() -> None:
    answer = fed(Hybrid()).search(Query(text="who won the football match"))
    assert answer.hits == ()
    assert answer.hints
    assert all(hint.startswith(("server: ", "category: ")) for hint in answer.hints)
    assert fed(Hybrid()).search(Query(text="who won the football match", abstain=False)).hits


def test_a_tool_that_is_hidden_does_not_take_a_place() -> None:
    many = tuple(Tool(name=f"send_email_{n}", description="Send an email.") for n in range(2_000))
    searcher = Hybrid()
    searcher.apply(CatalogChange(revision=1, added=(*many, *TOOLS)))
    query = Query(text="send an email", limit=3, visible=lambda tool: not tool.name[-1].isdigit())
    assert searcher.search(query).hits[0].tool.name == "send_email"


def test_use_decides_between_tools_that_fit_alike_and_no_others() -> None:
    twins = tuple(Tool(name=name, description="Send an email.") for name in ("mail_a", "mail_b"))
    searcher = Hybrid()
    searcher.apply(CatalogChange(revision=1, added=(*twins, *TOOLS)))

    def first(text: str, favourite: str) -> str:
        query = Query(text=text, boost=lambda name: float(name == favourite))
        return searcher.search(query).hits[0].tool.name

    assert (first("mail", "mail_a"), first("mail", "mail_b")) == ("mail_a", "mail_b")
    assert first("weather forecast", "mail_b") == "get_weather"


class Letters:
    """An embedder that counts letters."""

    def encode(self, texts: list[str], /) -> np.ndarray:
        return np.array(
            [[text.lower().count(it) for it in "abcdefghijklmnopqrstuvwxyz"] for text in texts]
        )


@pytest.mark.parametrize("make", [Hybrid, Embedding])
def test_an_embedder_of_ones_own_takes_the_place_of_the_table(make: type[Embedding]) -> None:
    searcher = make(embedder=Letters())
    searcher.apply(CatalogChange(revision=1, added=TOOLS))
    [hit, *_] = searcher.search(Query(text="resize image change size picture", abstain=False)).hits
    assert hit.tool.name == "resize_image"


def test_an_embedder_that_loses_texts_is_told_so() -> None:
    class Short:
        def encode(self, texts: list[str], /) -> np.ndarray:
            return np.zeros((len(texts) + 1, 3))

    with pytest.raises(ValueError, match="one vector for each text"):
        Embedding(embedder=Short())


class Broken(Letters):
    """Gives no numbers for some texts."""

    def __init__(self, number: float, word: str) -> None:
        self.number, self.word = number, word

    def encode(self, texts: list[str], /) -> np.ndarray:
        rows = super().encode(texts).astype(np.float64)
        rows[[self.word in text for text in texts]] = self.number
        return rows


@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan])
def test_what_an_embedder_gives_no_numbers_for_has_no_meaning(number: float) -> None:
    query, tools = "rain for a city", Broken(number, "rain")
    by_words = fed(Hybrid(embedder=tools)).search(Query(text=query, abstain=False))
    assert all(np.isfinite(hit.score) for hit in by_words.hits)
    assert all(0 <= hit.confidence <= 1 for hit in by_words.hits)
    assert not fed(Embedding(embedder=tools)).search(Query(text=query, abstain=False)).hits
    some = fed(Embedding(embedder=Broken(number, "mail"))).search(Query(text=query, abstain=False))
    assert some.hits
    assert all(np.isfinite(hit.score) for hit in some.hits)


def test_an_embedder_whose_vectors_change_their_length_is_told_so() -> None:
    class Growing(Letters):
        def encode(self, texts: list[str], /) -> np.ndarray:
            rows = super().encode(texts)
            return rows[:, :5] if texts == ["mail"] else rows

    searcher = fed(Hybrid(embedder=Growing()))
    with pytest.raises(ValueError, match="vectors of 5 numbers; before, they had"):
        searcher.search(Query(text="mail"))
