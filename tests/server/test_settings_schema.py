"""The schema of the section ``gateway``."""

from pegboard.config.files.file_schema import GATEWAY
from pegboard.server.settings import section_schema, section_text


def test_the_shipped_file_is_what_the_settings_give() -> None:
    shipped = GATEWAY.read_text("utf-8")
    assert shipped == section_text(), "Run `python -m scripts.reference`."


def test_every_setting_of_the_gateway_and_of_who_is_let_in_is_explained() -> None:
    definitions = section_schema()
    for kind in ("Gateway", "AuthSettings", "Profile"):
        for name, schema in definitions[kind]["properties"].items():
            assert schema.get("description", "").endswith("."), name
