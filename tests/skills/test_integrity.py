import base64
from typing import Any

import pytest

from pegboard.errors import SkillIntegrityError
from pegboard.skills import Skill, SkillFile, check_content, digest_of, raw_content, read_entry

URI = "skill://git/SKILL.md"
CONTENT = "---\nname: git\ndescription: Grüße\n---\n".encode()
FILE = SkillFile(digest_of(CONTENT), len(CONTENT))


def skill() -> Skill:
    entry = {
        "uri": URI,
        "frontmatter": {"name": "git", "description": "Grüße"},
        "resources": [{"uri": URI, "digest": FILE.digest, "size": FILE.size}],
    }
    return read_entry(entry, "docs")


def blob(content: bytes) -> dict[str, str]:
    return {"uri": URI, "blob": base64.b64encode(content).decode()}


@pytest.mark.parametrize("item", [{"uri": URI, "text": CONTENT.decode()}, blob(CONTENT)])
def test_text_and_binary_content_have_the_same_bytes(item: dict[str, Any]) -> None:
    assert raw_content(item) == CONTENT
    assert check_content(skill(), URI, FILE, [item]) == CONTENT


@pytest.mark.parametrize(
    "contents",
    [
        None,
        [],
        "text",
        [None],
        [{"uri": URI}],
        [{"uri": URI, "text": 5}],
        [{"uri": URI, "blob": "not base64!"}],
        [{"uri": URI, "text": CONTENT.decode()}] * 2,
        [{"uri": URI, "text": CONTENT.decode() + "\n"}],
        [{"uri": URI, "text": CONTENT.decode().replace("Grüße", "Grüsse")}],
        [{"uri": URI, "text": "\ud800"}],
        [blob(CONTENT[:-1] + b"!")],
    ],
)
def test_anything_else_is_a_mismatch_that_names_server_skill_and_file(contents: object) -> None:
    with pytest.raises(SkillIntegrityError) as caught:
        check_content(skill(), URI, FILE, contents)
    assert (caught.value.server, caught.value.skill, caught.value.uri) == ("docs", URI, URI)
