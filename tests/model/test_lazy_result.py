"""Results of servers: their content blocks are parsed when they are first read."""

import copy
import pickle
from typing import Any

import msgspec
import pytest

from pegboard.model import Other, Text, ToolResult
from pegboard.model.result import MOST_BLOCKS, result_of


def raw() -> dict[str, Any]:
    """Return a result as a server sends it."""
    return {
        "content": [{"type": "text", "text": "one"}, {"type": "new", "words": "two"}],
        "structuredContent": {"n": 1},
        "_meta": {"cost": 2},
        "more": True,
    }


def plain() -> ToolResult:
    """Return the same as a result whose blocks are parsed."""
    blocks = (Text(text="one"), Other(block={"type": "new", "words": "two"}))
    return ToolResult(content=blocks, structured_content={"n": 1}, meta={"cost": 2}, wire=raw())


def test_a_result_equals_one_whose_blocks_were_parsed_before() -> None:
    assert result_of(raw()) == plain()
    assert plain() == result_of(raw())
    assert result_of(raw()) != result_of({**raw(), "content": []})
    assert result_of(raw()) != "a text"


def test_blocks_are_parsed_once() -> None:
    result = result_of(raw())
    assert result.content is result.content
    assert result.text() == plain().text()
    assert result.blocks() == raw()["content"]


@pytest.mark.parametrize("is_read", [True, False])
def test_a_copy_of_a_result_is_equal_whether_or_not_its_blocks_were_read(*, is_read: bool) -> None:
    result = result_of(raw())
    if is_read:
        result.text()
    copies = (
        copy.copy(result),
        copy.deepcopy(result),
        pickle.loads(pickle.dumps(result)),
        msgspec.structs.replace(result),
    )
    assert [it == plain() for it in copies] == [True] * 4
    assert repr(result) == repr(plain())
    written = msgspec.to_builtins(result)
    assert written["content"][0] == {"type": "text", "text": "one"}


@pytest.mark.parametrize("content", [["words"], "words", {"type": "text"}, [None], 5, True])
def test_content_that_is_not_a_list_of_objects_is_refused_at_once(content: object) -> None:
    with pytest.raises(ValueError, match="object"):
        result_of({"content": content})


@pytest.mark.parametrize("meta", [5, "words", [1]])
def test_meta_that_is_not_an_object_is_refused_at_once(meta: object) -> None:
    with pytest.raises(ValueError, match="`_meta` is an object"):
        result_of({"content": [], "_meta": meta})


def test_too_many_blocks_are_refused_at_once() -> None:
    with pytest.raises(ValueError, match=str(MOST_BLOCKS)):
        result_of({"content": [{}] * (MOST_BLOCKS + 1)})
