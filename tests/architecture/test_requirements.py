from tests.requirements import COMING, LEFT_OUT, REQUIRED
from tests.requirements.ties import tied_tests

# How many lines the documents have: stated requirements, and what users of the real systems have.
STATED = {"SAGE": 40, "EXCEL": 65, "LITE": 33, "AS": 33, "REG": 41}
PARITY = {"SAGE": 9, "EXCEL": 14, "LITE": 9, "AS": 17, "REG": 13}


def test_every_requirement_is_named_by_a_test() -> None:
    assert set(REQUIRED) - set(tied_tests()) == set()


def test_every_named_requirement_exists() -> None:
    assert set(tied_tests()) - set(REQUIRED) == set()


def test_the_documents_are_listed_without_gaps() -> None:
    stated = {f"R-{name}-{it}" for name, last in STATED.items() for it in range(1, last + 1)}
    parity = {f"X-{name}-{it}" for name, last in PARITY.items() for it in range(1, last + 1)}
    assert stated - set(REQUIRED) - set(COMING) == set()
    assert stated | parity == set(REQUIRED) | set(LEFT_OUT) | set(COMING)
    assert len(stated | parity) == len(REQUIRED) + len(LEFT_OUT) + len(COMING)
