"""The Chinese pages say what the English ones say: as far as a machine can tell."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAIRS = [
    ("README.md", "README.zh-CN.md"),
    ("docs/getting-started.md", "docs/getting-started.zh-CN.md"),
]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^(#+) ", re.MULTILINE)
LINK = re.compile(r"\]\(([^)]+)\)")
CODE = re.compile(r"`([^`]+)`")
HAN = re.compile(r"[\u4e00-\u9fff]")


def texts(pair: tuple[str, str]) -> list[str]:
    return [(ROOT / name).read_text("utf-8") for name in pair]


def prose(text: str) -> str:
    return FENCE.sub("", text)


def code_without_comments(text: str) -> list[tuple[str, str]]:
    return [(kind, re.sub(r"\s+#(?!>).*", "", code)) for kind, code in FENCE.findall(text)]


@pytest.mark.parametrize("pair", PAIRS)
def test_headings_have_the_same_levels_in_the_same_order(pair: tuple[str, str]) -> None:
    english, chinese = (HEADING.findall(prose(text)) for text in texts(pair))
    assert english == chinese


@pytest.mark.parametrize("pair", PAIRS)
def test_code_and_commands_are_the_same(pair: tuple[str, str]) -> None:
    english, chinese = (code_without_comments(text) for text in texts(pair))
    assert english == chinese


@pytest.mark.parametrize("pair", PAIRS)
def test_links_lead_to_the_same_pages(pair: tuple[str, str]) -> None:
    english, chinese = (
        sorted(re.sub(r"\.zh-CN", "", link) for link in set(LINK.findall(prose(text))))
        for text in texts(pair)
    )
    assert english == chinese


@pytest.mark.parametrize("pair", PAIRS)
def test_what_stands_in_backticks_is_the_same(pair: tuple[str, str]) -> None:
    english, chinese = (
        {" ".join(code.split()) for code in CODE.findall(prose(text))} for text in texts(pair)
    )
    assert english == chinese


@pytest.mark.parametrize("pair", PAIRS)
def test_numbers_are_the_same(pair: tuple[str, str]) -> None:
    # In words ("four") they may be either; in digits they are measurements and versions.
    english, chinese = (
        sorted(set(re.findall(r"\d+(?:[.,]\d+)+", prose(text)))) for text in texts(pair)
    )
    assert english == chinese


@pytest.mark.parametrize("pair", PAIRS)
def test_each_leads_to_the_other_and_is_in_its_language(pair: tuple[str, str]) -> None:
    english, chinese = texts(pair)
    assert f"[中文]({Path(pair[1]).name})" in english
    assert f"[English]({Path(pair[0]).name})" in chinese
    assert len(HAN.findall(prose(english).replace("中文", ""))) == 0
    assert len(HAN.findall(prose(chinese))) > 500
