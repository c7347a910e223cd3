"""Whatever is public is documented, and README quotes only what the bench printed."""

import importlib
import json
import re
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from bench.measure import Row, table
from bench.run import SUITES

from pegboard import errors
from pegboard.config.network_variables import NETWORK_VARIABLES
from pegboard.doctor import CheckupState
from pegboard.gateway import GatewayOptions
from pegboard.policies import ORDER
from pegboard.server.http.request import Limits
from pegboard.upstream import ServerState

ROOT = Path(__file__).parents[2]
PAGES = {"clients": "client-files"}
"""Where the page of a package has another name."""
QUOTE = re.compile(r"<!-- bench: (\w+) -->\n(.*?)\n?<!-- bench: end -->", re.DOTALL)


def text_of(pattern: str) -> str:
    return "\n".join(page.read_text("utf-8") for page in sorted(ROOT.glob(pattern)))


@pytest.mark.parametrize(
    "package",
    [
        *("model", "config", "policies", "registry", "upstream", "hub", "toolsets"),
        *("auth", "gateway", "server", "clients", "doctor", "directory"),
    ],
)
def test_every_public_name_is_in_the_reference(package: str) -> None:
    words = set(re.findall(r"\w+", text_of(f"docs/reference/{PAGES.get(package, package)}.md")))
    public = set(importlib.import_module(f"pegboard.{package}").__all__)
    assert public - words == set()


@pytest.mark.parametrize("package", ["sage", "excelmanus", "liteai", "agentscope", "registrytools"])
def test_every_name_of_a_document_is_where_people_come_from(package: str) -> None:
    page = (ROOT / f"docs/guides/coming-from-{package}.md").read_text("utf-8")
    public = set(importlib.import_module(f"pegboard.compat.{package}").__all__)
    assert public - set(re.findall(r"\w+", page)) == set()


def test_every_setting_that_limits_something_is_in_the_table_of_limits() -> None:
    page = (ROOT / "docs/guides/secure.md").read_text("utf-8")
    table = page.partition("### Every limit")[2].partition("\n## ")[0]
    numbers = {
        field.name
        for kind in (GatewayOptions, Limits)
        for field in msgspec.structs.fields(kind)
        if field.type in (int, float)
    }
    no_limits = {"page_size", "ttl_ms", "task_after", "task_lease"}
    assert numbers - no_limits - set(re.findall(r"\w+", table)) == set()


def test_every_state_of_a_server_is_in_the_glossary() -> None:
    states = (
        (ROOT / "docs/glossary.md").read_text("utf-8").partition("## The states of a server")[2]
    )
    assert re.findall(r"^\| `(\w+)`", states, re.MULTILINE) == [
        *("cold", "starting", "ready", "down", "tripped", "disabled", "unusable", "closed")
    ]
    assert {*ServerState, "unusable"} <= set(re.findall(r"\w+", states))
    assert {"waiting", "listing"} < set(get_args(CheckupState))
    assert set(get_args(CheckupState)) <= {*ServerState, "unusable", "waiting", "listing"}


def test_every_inherited_variable_is_in_the_guide() -> None:
    guide = (ROOT / "docs/guides/configuration.md").read_text("utf-8")
    for name in (it for names in NETWORK_VARIABLES.values() for it in names):
        assert f"`{name}`" in guide


def test_whole_packages_are_in_the_reference() -> None:
    for package in ("errors", "observe", "compat.sage"):
        assert f"::: pegboard.{package}" in text_of("docs/reference/*.md")


def test_every_error_and_policy_is_explained() -> None:
    concepts = (ROOT / "docs/concepts.md").read_text("utf-8")
    reference = (ROOT / "docs/reference/errors.md").read_text("utf-8")
    for name in errors.__all__:
        if name.endswith("Error"):
            assert f"## `{name}`" in reference, name
    for name in ORDER:
        assert f"| `{name.capitalize()}` |" in concepts, name


def test_the_documentation_quotes_exactly_what_the_bench_wrote() -> None:
    quotes = QUOTE.findall((ROOT / "docs/measurements.md").read_text("utf-8"))
    assert {suite for suite, _ in quotes} == set(SUITES)
    for suite, quoted in quotes:
        written = json.loads((ROOT / f"bench/results/{suite}.json").read_text("utf-8"))
        assert quoted.strip() == table([Row(**row) for row in written["rows"]])


def test_every_decision_is_in_the_index_and_the_navigation() -> None:
    index = (ROOT / "docs/decisions/index.md").read_text("utf-8")
    navigation = (ROOT / "mkdocs.yml").read_text("utf-8")
    for page in (ROOT / "docs/decisions").glob("0*.md"):
        assert f"({page.name})" in index
        assert page.name in navigation


def test_every_room_is_in_the_drawing_of_the_layers() -> None:
    page = (ROOT / "docs/architecture.md").read_text("utf-8")
    drawing = page.partition("```text")[2].partition("```")[0]
    there = {it.name for it in (ROOT / "src/pegboard").iterdir() if (it / "__init__.py").is_file()}
    assert there - {"testing"} <= set(re.findall(r"\w+", drawing))


def test_every_file_that_a_journey_passes_is_there() -> None:
    page = (ROOT / "docs/architecture.md").read_text("utf-8")
    for path in re.findall(r"`(\w+/[\w/]+\.py)`", page):
        places = [
            ROOT / path,
            ROOT / "src/pegboard" / path,
            *(ROOT / "src/pegboard").glob(f"*/{path}"),
        ]
        assert any(it.is_file() for it in places), path


def test_every_entry_point_is_on_the_page_about_plug_ins() -> None:
    page = (ROOT / "docs/guides/plug-ins.md").read_text("utf-8")
    source = text_of("src/pegboard/**/*.py")
    groups = re.findall(r'^ENTRY_POINTS = "([\w.]+)"$', source, re.MULTILINE)
    assert len(groups) >= 3
    for group in groups:
        assert f'entry-points."{group}"' in page
