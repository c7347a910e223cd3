"""The walks: a call and a search take a short way, and their pages show each file of it."""

import re
from pathlib import Path

import pytest
from scripts.walk_pages import LEFT_OUT
from scripts.walks import Walk, walks

ROOT = Path(__file__).parents[2]
MOST_HOPS = {"call": 26, "search": 13}
"""The most functions of `src/pegboard` on the stack when a request reaches its destination."""
MOST_FILES = {"call": 48, "search": 57}
"""The most files of `src/pegboard` that a request enters on its way there and back."""
BEFORE_UPSTREAM = 11
"""The most hops of a call before the part that talks to servers."""
MOST_LEFT_OUT = 10

both = pytest.mark.parametrize("name", ["call", "search"])


def shown_on(page: str) -> list[str]:
    """Return the files of a page that is made from a walk, in the order of their first mention."""
    text = (ROOT / "docs/architecture" / f"{page}.md").read_text("utf-8")
    made = text.partition("<!-- made: walk -->")[2].partition("\nNot in the tables:")[0]
    return list(dict.fromkeys(re.findall(r"`([a-z_0-9/]+\.py)`", made)))


@both
def test_a_page_shows_each_file_that_a_request_enters_in_order(name: str) -> None:
    assert shown_on(name) == [it for it in walks()[name].files if it not in LEFT_OUT]


@both
def test_the_text_of_a_page_names_no_file_that_does_not_exist(name: str) -> None:
    text = (ROOT / "docs/architecture" / f"{name}.md").read_text("utf-8")
    for file in re.findall(r"`([a-z_0-9]+/[a-z_0-9/]+\.py)`", text):
        is_ours = file.startswith(("scripts/", "tests/"))
        assert (ROOT / ("" if is_ours else "src/pegboard") / file).is_file(), file


def test_at_most_ten_files_are_left_out_and_each_with_a_reason() -> None:
    assert len(LEFT_OUT) <= MOST_LEFT_OUT
    assert [it for it, reason in LEFT_OUT.items() if not reason.endswith(".")] == []
    entered = {file for walk in walks().values() for file in walk.files}
    assert LEFT_OUT.keys() <= entered


@both
def test_a_request_takes_few_hops(name: str) -> None:
    assert len(walks()[name].hops) <= MOST_HOPS[name], hops_of(walks()[name])


@both
def test_a_request_enters_few_files(name: str) -> None:
    assert len(walks()[name].files) <= MOST_FILES[name], walks()[name].files


def test_a_call_takes_few_hops_to_the_part_that_talks_to_servers() -> None:
    hops = [it.file for it in walks()["call"].hops]
    upstream = [at for at, file in enumerate(hops) if file.startswith("upstream/")]
    assert upstream[0] <= BEFORE_UPSTREAM
    # From there on the call does not leave it again.
    assert upstream == list(range(upstream[0], len(hops)))


def test_a_call_passes_telemetry_before_validation_and_the_server() -> None:
    files = walks()["call"].files
    wanted = ["policies/access.py", "policies/telemetry.py", "policies/validation.py"]
    assert [it for it in files if it in (*wanted, "upstream/server.py")] == [
        *wanted,
        "upstream/server.py",
    ]


def hops_of(walk: Walk) -> str:
    """Return the hops, one on each line."""
    return "\n".join(f"{at} {it.file} {it.function}" for at, it in enumerate(walk.hops, start=1))
