"""What the configuration file says about the gateway itself."""

from pathlib import Path
from typing import Any

import pytest

from pegboard.errors import ConfigError
from pegboard.gateway import GatewayOptions, Profile
from pegboard.server.settings import GatewaySettings, load_gateway_settings


def test_without_a_section_everything_is_as_usual() -> None:
    assert load_gateway_settings({"mcpServers": {}}) == GatewaySettings()


def test_options_and_profiles_are_read() -> None:
    section = {"page_size": 50, "pinned": ["a*"], "profiles": {"r": {"tools": ["get_*"]}}}
    settings = load_gateway_settings({"gateway": {"auth": {"keys": True}, **section}})
    profiles = {"r": Profile(tools=("get_*",))}
    expected = GatewayOptions(page_size=50, pinned=("a*",), profiles=profiles)
    assert settings == GatewaySettings(options=expected)


@pytest.mark.covers("R-REG-25")
def test_the_environment_chooses_the_search_method_before_the_file() -> None:
    def chosen(section: dict[str, Any], **environ: str) -> str:
        return load_gateway_settings({"gateway": section}, environ=environ).options.search_method

    file = {"search_method": "embedding"}
    assert chosen({}) == "hybrid"
    assert chosen(file) == "embedding"
    assert chosen({}, PEGBOARD_SEARCH_METHOD="bm25") == "bm25"
    assert chosen(file, PEGBOARD_SEARCH_METHOD="bm25") == "bm25"
    assert chosen(file, PEGBOARD_SEARCH_METHOD="") == "embedding"


def test_files_of_tenants_are_beside_the_file_that_names_them(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text('{"gateway": {"tenants": {"a": "a.json", "b": "/b.json"}}}', encoding="utf-8")
    settings = load_gateway_settings(path)
    assert settings.tenants == {"a": str(tmp_path / "a.json"), "b": "/b.json"}


def test_a_misspelt_setting_is_named_with_its_place_and_what_was_meant(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text('{"gateway": {\n  "naame": "x"\n}}', encoding="utf-8")
    with pytest.raises(ConfigError, match="no setting `naame`; did you mean `name`") as caught:
        load_gateway_settings(path)
    assert (caught.value.path, caught.value.line, caught.value.column) == (str(path), 2, 3)
    with pytest.raises(ConfigError, match=r"it has .*page_size.*tenants"):
        load_gateway_settings({"gateway": {"zzzzzz": 1}})


def test_a_misspelt_word_in_a_profile_does_not_open_it_to_everything(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(
        '{"gateway": {"profiles": {"readers": {\n  "tool": ["*_get_*"]\n}}}}', encoding="utf-8"
    )
    expected = "`gateway.profiles.readers` has no setting `tool`; did you mean `tools`"
    with pytest.raises(ConfigError, match=expected) as caught:
        load_gateway_settings(path)
    assert (caught.value.path, caught.value.line, caught.value.column) == (str(path), 2, 3)


@pytest.mark.parametrize("name", ["", "/", "a/b", "a/", "/a", ".", "..", "a" * 200])
def test_a_profile_that_no_address_leads_to_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"`gateway\.profiles`.*/mcp/<profile>"):
        load_gateway_settings({"gateway": {"profiles": {name: {}}}})


@pytest.mark.parametrize("name", ["readers", "a b", "größe", "a.b", "50%"])
def test_any_other_name_of_a_profile_is_taken(name: str) -> None:
    settings = load_gateway_settings({"gateway": {"profiles": {name: {}}}})
    assert list(settings.options.profiles) == [name]


@pytest.mark.parametrize("name", ["default", "pegboard", ""])
def test_a_tenant_that_would_never_be_served_from_its_file_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"gateway\.tenants"):
        load_gateway_settings({"gateway": {"tenants": {name: "a.json"}}})


@pytest.mark.parametrize(
    "section",
    [
        [1],
        "x",
        {"nonsense": 1},
        {"page_size": "many"},
        {"tenants": ["a"]},
        {"page_size": 0},
        {"profiles": []},
        {"profiles": {"a": []}},
        {"profiles": {"a": {"tools": "*"}}},
    ],
)
def test_what_cannot_be_used_is_refused(section: Any) -> None:
    with pytest.raises(ConfigError, match="gateway"):
        load_gateway_settings({"gateway": section})
