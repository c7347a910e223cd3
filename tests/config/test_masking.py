"""Masking: what people may see of a configuration file has no secret, and comes back whole."""

import json

import pytest

from pegboard.config.files.jsonc import parse_jsonc
from pegboard.config.masking import masked_entry, masked_text, unmasked
from pegboard.errors import ConfigError

SECRETS = (
    "hunter2-of-env",
    "tok",
    "ghp_0123456789abcdefghijABCDEFGHIJ012345",
    "pa55word",
    "querysecret",
    "9876",
    "inacomment77",
    "fallbacksecret",
)
FILE = """{
  // the servers of the team
  "mcpServers": {
    "one": {
      "command": "run", // starts it
      "args": ["--port", "8080", "--token", "tok", "ghp_0123456789abcdefghijABCDEFGHIJ012345"],
      "env": {"NAME": "hunter2-of-env", "PIN": 9876, "KEPT": "${KEPT}", "D": "${D:-fallbacksecret}"}
    },
    // "API_KEY": "inacomment77"
    "two": {
      "url": "https://ann:pa55word@host.example/mcp?project=querysecret&k=${K}",
      "headers": {"Authorization": "Bearer ${TOKEN}"}
    }
  },
  "gateway": {"auth": {"plugins": {"x": {"client_secret": "hunter2-of-env"}}}}
}
"""


def test_no_secret_is_left_and_everything_else_is() -> None:
    masked = masked_text(FILE)
    for secret in SECRETS:
        assert secret not in masked.replace("--token", "").replace("TOKEN", "")
    assert parse_jsonc(masked).value["mcpServers"]["one"]["args"][:3] == [
        "--port",
        "8080",
        "--token",
    ]
    for kept in (
        "// the servers of the team",
        "// starts it",
        "${KEPT}",
        "Bearer ${TOKEN}",
        "${K}",
    ):
        assert kept in masked
    assert len(masked.splitlines()) == len(FILE.splitlines())


def test_an_edited_entry_gets_its_hidden_values_back() -> None:
    for before in parse_jsonc(FILE).value["mcpServers"].values():
        shown = json.loads(masked_entry(before))
        assert unmasked(shown, before) == before
        assert unmasked({**shown, "lazy": True}, before) == {**before, "lazy": True}


def test_asterisks_that_stand_for_nothing_are_refused() -> None:
    before = {"url": "https://host.example/mcp", "headers": {"A": "secret"}}
    for entry in ({"headers": {"B": "***"}}, {"url": "https://***/"}, {"args": ["***"]}):
        with pytest.raises(ConfigError):
            unmasked(entry, before)
