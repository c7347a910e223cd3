import random
import sys
from types import FrameType

import pytest

from pegboard.model.tool_names import nearest_names

NAMES = ["read_file", "write_file", "list_directory", "createPullRequest", "send-email"]


@pytest.mark.parametrize(
    ("wanted", "best"),
    [
        ("read_fiel", "read_file"),
        ("ReadFile", "read_file"),
        ("create_pull_request", "createPullRequest"),
        ("sendEmail", "send-email"),
        ("list_directories", "list_directory"),
    ],
)
def test_the_name_that_was_meant_comes_first(wanted: str, best: str) -> None:
    assert nearest_names(wanted, NAMES)[0] == best


def test_what_is_far_worse_than_the_best_is_left_out() -> None:
    names = ["mcp_weather_get_forecast", "mcp_weather_get_forecasts", "mcp_weather_boom"]
    assert nearest_names("mcp_weather_get_forecst", names) == names[:2]
    assert nearest_names("mcp_weather_bom", names)[0] == "mcp_weather_boom"


def test_the_right_name_is_found_among_very_many() -> None:
    names = [f"server_{number}_{verb}" for number in range(5000) for verb in ("read", "write")]
    assert nearest_names("create_pull_reqest", [*names, "create_pull_request"]) == [
        "create_pull_request"
    ]


@pytest.mark.parametrize("wanted", ["", "zzzzqqqq", 3, None, ["a"], "x" * 100_000])
def test_nothing_is_suggested_for_nonsense(wanted: object) -> None:
    assert nearest_names(wanted, NAMES) == []


def test_long_names_of_few_letters_are_compared_within_limits() -> None:
    chosen = random.Random(7)
    names = ["".join(chosen.choices("ab", k=64)) for _ in range(400)]
    steps = 0

    def count(_: FrameType, event: str, __: object) -> None:
        nonlocal steps
        steps += event == "call"

    sys.setprofile(count)
    try:
        found = nearest_names(f"{names[321][:40]}x{names[321][40:]}", names)
    finally:
        sys.setprofile(None)
    assert found[0] == names[321]
    assert steps < 20_000


def test_only_names_that_may_be_told_are_suggested() -> None:
    names = ["read_file", "read_files", "read_fields"]
    assert (
        nearest_names("read-file", names, may_tell=lambda it: it != "read_file")[0] == "read_files"
    )


@pytest.mark.parametrize("names", [[], ["two\nlines"], ["", "one"], ["a\nb", "a_c"]])
def test_any_text_may_be_a_name(names: list[str]) -> None:
    assert nearest_names(names[-1] if names else "x", names) == names[-1:]
