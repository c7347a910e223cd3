from typing import Any

import pytest

from pegboard import Access, AccessDeniedError, CallRecord, Registry, Tool


def tool_named(name: str) -> Tool:
    return Tool(name=name)


@pytest.mark.covers("R-SAGE-35")
@pytest.mark.parametrize(
    ("access", "name", "permitted"),
    [
        (Access(), "anything", True),
        (Access(allow=["files_*"]), "files_read", True),
        (Access(allow=["files_*"]), "mail_send", False),
        (Access(allow=[]), "anything", False),
        (Access(deny=["*_delete"]), "files_delete", False),
        (Access(deny=["*_delete"]), "files_read", True),
        (Access(allow=["*"], deny=["files_delete"]), "files_delete", False),
        (Access(allow=["files_?ead"]), "files_read", True),
        (Access(allow=["files_[rw]*"]), "files_exec", False),
        (Access(allow=["FILES_*"]), "files_read", False),
        (Access(deny=["a"]), "ab", True),
        (Access(allow=["a.b"]), "axb", False),
    ],
)
def test_patterns_decide_and_deny_wins(access: Access, name: str, permitted: bool) -> None:
    assert access.permits(tool_named(name)) is permitted


@pytest.mark.covers("R-SAGE-35")
def test_a_denied_tool_is_neither_seen_nor_called(records: list[CallRecord]) -> None:
    ran: list[int] = []

    def delete(key: int) -> None:
        ran.append(key)

    registry = Registry(access=Access(deny=["delete"]), observers=[records.append])
    registry.register(delete)
    assert registry.describe() == {}
    assert registry.tools() == ()
    with pytest.raises(AccessDeniedError) as refused:
        registry.call("delete", {"not": "even checked"})
    assert refused.value.tool == "delete"
    assert isinstance(refused.value, PermissionError)
    assert ran == []
    assert [(it.outcome, it.error_code, it.attempts) for it in records] == [
        ("refused", "access_denied", 0)
    ]


def test_a_denied_tool_says_nothing_else_of_itself() -> None:
    registry = Registry(access=Access(deny=["secret"]))
    registry.register(tool_named("secret"), groups=["hidden"])
    registry.disable_group("hidden")
    anything: Any = 3
    for arguments in ({}, anything):
        with pytest.raises(AccessDeniedError):
            registry.call("secret", arguments)


def test_a_tool_can_have_an_access_list_of_its_own() -> None:
    registry = Registry(access=Access(allow=[]))
    registry.register(lambda_free, access=None)
    assert registry.call("lambda_free") == 1


def lambda_free() -> int:
    return 1


@pytest.mark.covers("R-SAGE-17")
def test_without_an_access_list_everything_is_permitted() -> None:
    registry = Registry()
    registry.register(lambda_free)
    assert registry.call("lambda_free") == 1


def test_a_bare_string_is_refused_as_a_list_of_patterns() -> None:
    with pytest.raises(TypeError, match=r"\['delete_\*'\]"):
        Access(deny="delete_*")
