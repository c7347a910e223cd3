"""Every text of the pages has a Chinese one with the same places for values, and no other has."""

import re
from pathlib import Path
from typing import get_args

import msgspec
from jinja2 import Environment, nodes

import pegboard.console
from pegboard.console.config_plans import PlannedAction
from pegboard.console.pages.calls import PHASES
from pegboard.doctor import Severity
from pegboard.model.task import TaskStatus
from pegboard.upstream.connection import Era, ServerState

ROOM = Path(pegboard.console.__file__).parent
PLACE = re.compile(r"{\w*}")
SAID_OF_VALUES = {
    *(str(it) for it in ServerState),
    *("unusable", *PHASES, "gateway", "Arguments", "Result"),
    *(*get_args(Severity), *get_args(PlannedAction), *get_args(Era)),
    *("enabled", "valid", "revoked", "expired"),
    *("skills", "tools of apps", *(f"tasks {it.value}" for it in TaskStatus)),
}
"""What a template translates by the value that it shows."""


def said() -> set[str]:
    """Return the texts of all templates."""
    found = set(SAID_OF_VALUES)
    for path in (ROOM / "templates").glob("*.html"):
        for call in (
            Environment(autoescape=True).parse(path.read_text("utf-8")).find_all(nodes.Call)
        ):
            if isinstance(call.node, nodes.Name) and call.node.name == "t":
                text = call.args[0]
                if isinstance(text, nodes.Const):
                    found.add(text.value)
    return found


def test_every_text_is_said_in_chinese_and_no_other() -> None:
    chinese = msgspec.json.decode((ROOM / "texts" / "zh.json").read_bytes(), type=dict[str, str])
    wanted = said()
    assert wanted - {*chinese} == set()
    assert {*chinese} - wanted == set()
    for text, other in chinese.items():
        assert sorted(PLACE.findall(text)) == sorted(PLACE.findall(other)), text
        assert re.search(r"[\u4e00-\u9fff]", other), text
    assert list(chinese) == sorted(chinese)
