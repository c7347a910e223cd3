"""Secrets are moved, and the entry means what it meant."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegboard.config import Variables
from pegboard.config.secrets.kept_secrets import KeptSecret, keep_secret
from pegboard.config.secrets.move_secrets import move_secrets
from pegboard.config.secrets.plain_secrets import plain_secrets

TEXTS = st.text(max_size=12) | st.sampled_from(
    [
        "ghp_abcdefghijklmnop1234",
        "Bearer canary-4711",
        "basic dTpwYXNzd29yZA==",
        "https://u:hunter22@h.test/x?key=abcdefgh1&token=zyx",
        "--token=canary-0815",
        "--api-key",
        "Pwd=hunter22;Server=x",
        '{"password": "hunter22"}',
        "${A:-ghp_abcdefghijklmnop1234}",
        "$${A}ghp_abcdefghijklmnop1234",
    ]
)
NAMES = st.sampled_from(["GITHUB_TOKEN", "PASSWORD", "DATABASE", "authorization", "X-Api-Key", "a"])
ENTRIES = st.fixed_dictionaries(
    {},
    optional={
        "command": TEXTS,
        "args": st.lists(TEXTS, max_size=4),
        "env": st.dictionaries(NAMES, TEXTS, max_size=3),
        "headers": st.dictionaries(NAMES, TEXTS, max_size=3),
        "url": TEXTS,
        "bearer_token": TEXTS,
        "oauth": st.fixed_dictionaries({"client_secret": TEXTS}),
    },
)


class Keeper:
    """Keeps secrets as variables of an environment."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}

    def __call__(self, name: str, value: str) -> KeptSecret:
        variable = f"KEPT_{len(self.kept)}"
        self.kept[variable] = value
        return KeptSecret("file", f"${{{variable}}}")


def expanded(value: Any, environ: dict[str, str]) -> Any:
    if isinstance(value, str):
        return Variables(environ=environ, undefined="keep").expand(value).text
    if isinstance(value, dict):
        return {key: expanded(it, environ) for key, it in value.items()}
    return [expanded(it, environ) for it in value] if isinstance(value, list) else value


@given(ENTRIES)
def test_what_was_moved_comes_back_when_the_file_is_read(entry: dict[str, Any]) -> None:
    keeper = Keeper()
    moved = move_secrets("peg", entry, keeper)
    assert expanded(moved.entry, keeper.kept) == expanded(entry, {})
    assert len(moved.kept) == len(keeper.kept)
    still = list(plain_secrets("peg", moved.entry))
    assert len(still) <= len(moved.left)


@pytest.mark.parametrize(
    ("field", "text", "left"),
    [
        ("env", "ghp_abcdefghijklmnop1234", "${KEPT_0}"),
        ("headers", "Bearer canary-4711", "Bearer ${KEPT_0}"),
        ("headers", "canary 4711", "${KEPT_0}"),
    ],
)
def test_a_scheme_before_a_secret_stays(field: str, text: str, left: str) -> None:
    moved = move_secrets("peg", {field: {"Authorization": text}}, Keeper())
    assert moved.entry == {field: {"Authorization": left}}
    assert list(moved.kept) == [f"{field}.Authorization"]


def test_only_the_secret_goes_out_of_an_address_and_an_argument() -> None:
    keeper = Keeper()
    entry = {
        "url": "https://h.test/mcp?key=canary-4711&a=1",
        "args": ["--token=canary-0815", "--port", "80"],
    }
    moved = move_secrets("peg", entry, keeper)
    assert moved.entry == {
        "url": "https://h.test/mcp?key=${KEPT_0}&a=1",
        "args": ["--token=${KEPT_1}", "--port", "80"],
    }
    assert entry["args"][0] == "--token=canary-0815"


def test_a_number_is_moved_where_a_text_of_its_digits_would_be() -> None:
    keep = Keeper()
    env = {"PIN": 123456, "API_TOKEN": 99887766, "MAX_TOKENS": 4096, "DEBUG": True, "RATIO": 1.5}
    entry = {"env": env, "args": ["--pin", 445566, "--port", 8080]}
    moved = move_secrets("one", entry, keep)
    assert moved.entry == {
        "env": {**env, "PIN": "${KEPT_0}", "API_TOKEN": "${KEPT_1}"},
        "args": ["--pin", "${KEPT_2}", "--port", 8080],
    }
    assert list(keep.kept.values()) == ["123456", "99887766", "445566"]


def test_a_secret_beside_a_variable_is_left_for_a_person() -> None:
    entry = {"env": {"GITHUB_TOKEN": "${A:-ghp_abcdefghijklmnop1234}"}}
    moved = move_secrets("peg", entry, Keeper())
    assert (moved.entry, moved.left) == (entry, ("env.GITHUB_TOKEN",))


def test_a_secret_that_is_too_long_to_be_kept_is_left() -> None:
    entry = {"command": "x", "env": {"API_TOKEN": "k9Z" * 25_000}}
    moved = move_secrets("s", entry, keep_secret)
    assert (moved.entry, moved.kept, moved.left) == (entry, {}, ("env.API_TOKEN",))
