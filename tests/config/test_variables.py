from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegboard.config import Expansion, Variables
from pegboard.errors import ConfigError


def variables(**changes: Any) -> Variables:
    known = {"TOKEN": "a-long-secret", "EMPTY": "", "SHORT": "abc", "HOME": "/home/ada"}
    options: dict[str, Any] = {
        "environ": known,
        "workspace": "/home/ada/board",
        "home": "/home/ada",
    } | changes
    return Variables(**options)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("${TOKEN}", "a-long-secret"),
        ("${env:TOKEN}", "a-long-secret"),
        ("Bearer ${TOKEN}!", "Bearer a-long-secret!"),
        ("${TOKEN}${SHORT}", "a-long-secretabc"),
        ("${TOKEN:-other}", "a-long-secret"),
        ("${NONE:-other}", "other"),
        ("${NONE:-}", ""),
        ("${NONE:-a:-b}", "a:-b"),
        ("${env:NONE:-other}", "other"),
        ("${EMPTY}", ""),
        ("${EMPTY:-other}", "other"),
        ("$${TOKEN}", "${TOKEN}"),
        ("$$", "$$"),
        ("$TOKEN", "$TOKEN"),
        ("cost: 5$", "cost: 5$"),
        ("${workspaceFolder}/src", "/home/ada/board/src"),
        ("${workspaceFolderBasename}", "board"),
        ("${userHome}/x", "/home/ada/x"),
    ],
)
def test_variables_are_replaced(text: str, expected: str) -> None:
    assert variables().expand(text).text == expected


def test_what_came_out_of_a_variable_is_a_secret() -> None:
    assert variables().expand("x ${TOKEN}") == Expansion(
        "x a-long-secret", frozenset({"a-long-secret"})
    )


@pytest.mark.parametrize(
    "text",
    ["${SHORT}", "${HOME}", "${workspaceFolder}", "${userHome}", "${NONE:-abc}", "${PWD:-/tmp/b}"],
)
def test_short_values_and_paths_are_no_secrets(text: str) -> None:
    assert variables().expand(text).secrets == frozenset()


@pytest.mark.parametrize("text", ["${NONE:-a-long-default}", "${env:EMPTY:-a-long-default}"])
def test_a_default_is_as_secret_as_the_variable(text: str) -> None:
    assert variables().expand(text).secrets == {"a-long-default"}


def test_a_value_is_not_expanded_again() -> None:
    assert variables(environ={"A": "${B}", "B": "b"}).expand("${A}").text == "${B}"


def test_an_undefined_variable_is_named() -> None:
    with pytest.raises(ConfigError, match="NO_SUCH_THING is not set"):
        variables().expand("${TOKEN} ${NO_SUCH_THING}")


@pytest.mark.parametrize("text", ["${", "${TOKEN", "${A:-${B}}", "${command:x}", "${}", "${a b}"])
def test_what_is_no_variable_is_refused_without_being_shown(text: str) -> None:
    with pytest.raises(ConfigError, match=r"Write `\$\$\{`") as caught:
        variables().expand(text)
    assert "command" not in str(caught.value)


def test_the_policy_for_undefined_variables_can_be_chosen() -> None:
    assert variables(undefined="keep").expand("a ${NONE} ${input:x}").text == "a ${NONE} ${input:x}"
    assert variables(undefined="empty").expand("a ${NONE}").text == "a "


def test_an_input_is_answered_by_the_caller_or_by_the_environment() -> None:
    given_inputs = variables(inputs={"api-key": "from-the-caller"}, environ={"API_KEY": "x"})
    assert given_inputs.expand("${input:api-key}") == Expansion(
        "from-the-caller", frozenset({"from-the-caller"})
    )
    assert variables(environ={"API_KEY": "from-outside"}).expand("${input:api-key}").text == (
        "from-outside"
    )
    with pytest.raises(ConfigError, match=r"'api-key' has no value.* API_KEY.*`pegboard import`"):
        variables().expand("${input:api-key}")


@pytest.mark.parametrize("identity", ["path", "home", "user", "LANG"])
def test_an_input_is_not_answered_by_what_every_environment_holds(identity: str) -> None:
    everywhere = variables(environ={identity.upper(): "/usr/bin"})
    with pytest.raises(ConfigError, match=r"has no value\. Let `pegboard import` ask"):
        everywhere.expand(f"${{input:{identity}}}")
    answered = variables(environ={}, inputs={identity: "answer"})
    assert answered.expand(f"${{input:{identity}}}").text == "answer"


def test_an_input_that_nobody_answers_has_its_default() -> None:
    asked = variables(environ={}, input_defaults={"region": "eu", "path": "/srv"})
    assert asked.expand("${input:region} ${input:path}").text == "eu /srv"
    answered = variables(environ={"REGION": "us"}, input_defaults={"region": "eu"})
    assert answered.expand("${input:region}").text == "us"


def test_the_environment_is_not_shown() -> None:
    assert "secret" not in repr(variables())
    assert "secret" not in repr(list(variables().__rich_repr__()))


@given(st.text(alphabet=st.characters(exclude_characters="$")))
def test_text_without_a_dollar_is_left_alone(text: str) -> None:
    assert variables().expand(text) == Expansion(text)


@given(st.text(alphabet="${}AB:-"))
def test_escaping_protects_any_text(text: str) -> None:
    assert variables().expand(text.replace("${", "$${")).text == text
