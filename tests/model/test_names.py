import pytest

from pegboard.model.names import nearest_names

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


@pytest.mark.parametrize("wanted", ["", "zzzzqqqq", 3, None, ["a"], "x" * 100_000])
def test_nothing_is_suggested_for_nonsense(wanted: object) -> None:
    assert nearest_names(wanted, NAMES) == []
