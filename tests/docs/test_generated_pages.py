"""Pages that are made from the code are what the code makes of them now."""

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from scripts import errors_page, gateway_tools_page, settings_page
from scripts.reference import DRAWINGS, PAGES, PARTS, ROOMS, made

from pegboard import errors
from pegboard.auth.settings import AuthSettings, TokenIssuer
from pegboard.config.files.entry import OAuthEntry, ServerEntry, TimeoutsEntry
from pegboard.gateway.builtin_tool import OWN_NAMES
from pegboard.gateway.options import GatewayOptions, Profile

ROOT = Path(__file__).parents[2]
# What a process of ours tells its own children, and what shells tell completion.
INTERNAL = {"PEGBOARD_CHILD", "PEGBOARD_COMPLETE", "PEGBOARD_SERVING"}


@pytest.mark.parametrize("name", [*PAGES, *DRAWINGS, *PARTS, *ROOMS])
def test_a_page_is_what_the_code_makes_of_it(name: str) -> None:
    assert (ROOT / name).read_text("utf-8") == made(name), "run `python -m scripts.reference`"


def test_every_setting_is_on_the_page() -> None:
    page = (ROOT / "docs/reference/settings.md").read_text("utf-8")
    kinds = (ServerEntry, TimeoutsEntry, OAuthEntry, GatewayOptions, Profile)
    for kind in (*kinds, AuthSettings, TokenIssuer):
        for field in msgspec.structs.fields(kind):
            row = next(line for line in page.splitlines() if line.startswith(f"| `{field.name}` |"))
            assert len(row.split("|")[4].strip()) > 5, field.name


def test_every_environment_variable_is_on_the_page() -> None:
    assert variables() - INTERNAL <= settings_page.VARIABLES.keys()


def variables() -> set[str]:
    def named() -> Iterator[str]:
        for file in (ROOT / "src/pegboard").rglob("*.py"):
            yield from re.findall(r"\bPEGBOARD_[A-Z_]*[A-Z]", file.read_text("utf-8"))

    return set(named())


def test_every_error_has_a_remedy() -> None:
    kinds = {name for name in errors.__all__ if name.endswith("Error")}
    assert errors_page.REMEDIES.keys() == kinds


def test_every_tool_of_the_gateway_is_on_the_page() -> None:
    assert {tool.name for tool in gateway_tools_page.DEFINITIONS} == OWN_NAMES
