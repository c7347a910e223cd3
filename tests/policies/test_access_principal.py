import time
from itertools import chain, combinations
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegboard.model import Principal, Scope, Tool
from pegboard.model.principal import ANONYMOUS, LOCAL
from pegboard.policies import holds, may, may_operate, may_use_server, visible_to
from pegboard.policies.access import METHODS

ACTIONS: tuple[Scope, ...] = get_args(Scope)
ISSUE = Tool(name="github_create_issue", server="github")


def principal_with(*scopes: Scope, **more: object) -> Principal:
    return Principal(subject="key-1", scopes=frozenset(scopes), **more)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("scopes", "read", "call", "register", "admin"),
    [
        ("", False, False, False, False),
        ("read", True, False, False, False),
        ("call", True, True, False, False),
        ("register", False, False, True, False),
        ("admin", True, True, True, True),
        ("read call", True, True, False, False),
        ("read register", True, False, True, False),
        ("call register", True, True, True, False),
        ("read call register", True, True, True, False),
        ("read call register admin", True, True, True, True),
    ],
)
def test_what_each_scope_grants(
    scopes: str, read: bool, call: bool, register: bool, admin: bool
) -> None:
    granted = frozenset[Scope](action for action in ACTIONS if action in scopes.split())
    principal = Principal(subject="key-1", scopes=granted)
    expected = dict(zip(ACTIONS, (read, call, register, admin), strict=True))
    assert {action: holds(principal, action) for action in ACTIONS} == expected
    assert {action: may(principal, action, ISSUE) for action in ACTIONS} == expected


@pytest.mark.parametrize(
    ("servers", "tools", "server", "name", "matches"),
    [
        (["*"], ["*"], "github", "github_create_issue", True),
        (["*"], ["*"], None, "local", True),
        (["github"], ["*"], "github", "github_create_issue", True),
        (["github"], ["*"], "gitlab", "gitlab_create_issue", False),
        (["git*"], ["*"], "gitlab", "gitlab_create_issue", True),
        (["github"], ["*"], None, "github_create_issue", False),
        ([""], ["*"], None, "local", True),
        ([""], ["*"], "github", "github_create_issue", False),
        (["?*"], ["*"], None, "local", False),
        (["*"], ["github_get_*"], "github", "github_create_issue", False),
        (["*"], ["github_get_*", "github_create_*"], "github", "github_create_issue", True),
        (["github"], ["mail_*"], "github", "github_create_issue", False),
        (["github"], ["mail_*"], "mail", "mail_send", False),
        ([], ["*"], "github", "github_create_issue", False),
        (["*"], [], "github", "github_create_issue", False),
        (["GitHub"], ["*"], "github", "github_create_issue", False),
        (["github"], ["*"], "github\n", "x", False),
        (["git"], ["*"], "github", "github_create_issue", False),
        (["[z-a"], ["*"], "github", "x", False),
        (["gíthub"], ["*"], "gi\u0301thub", "x", False),
    ],
)
def test_patterns_of_servers_and_of_tools_must_both_match(
    servers: list[str], tools: list[str], server: str | None, name: str, matches: bool
) -> None:
    principal = principal_with("admin", servers=tuple(servers), tools=tuple(tools))
    tool = Tool(name=name, server=server)
    assert {may(principal, action, tool) for action in ACTIONS} == {matches}
    visible = visible_to(principal)
    assert (visible is None or visible(tool)) is matches


def test_nothing_is_granted_any_more_once_it_has_expired() -> None:
    gone = principal_with("admin", expires=time.time() - 0.001)
    assert not any(may(gone, action, ISSUE) or holds(gone, action) for action in ACTIONS)
    visible = visible_to(gone)
    assert visible is not None
    assert not visible(ISSUE)
    assert may(principal_with("admin", expires=time.time() + 3600), "call", ISSUE)


def test_who_is_limited_to_some_tools_reaches_nothing_else_of_their_servers() -> None:
    limited = principal_with("call", servers=("github",), tools=("github_get_*",))
    assert may_use_server(limited, "read", "github", name="github_get_started")
    assert not may_use_server(limited, "read", "github", name="github_review")
    assert not may_use_server(limited, "call", "github", name="pegboard://github/readme")
    assert not may_use_server(limited, "call", "github")
    whole = principal_with("call", servers=("github",))
    assert may_use_server(whole, "call", "github", name="pegboard://github/readme")
    assert not may_use_server(whole, "call", "mail", name="pegboard://mail/inbox")


def test_who_may_find_everything_needs_no_look_at_each_tool() -> None:
    assert visible_to(principal_with("read")) is None
    assert visible_to(principal_with("call", servers=("a", "*"), tools=("*",))) is None
    assert visible_to(principal_with("read"), "call") is not None


def test_the_process_is_looked_after_by_admins_of_everything_in_the_first_tenant() -> None:
    assert may_operate(LOCAL)
    assert may_operate(principal_with("admin"))
    assert not may_operate(principal_with("read", "call", "register"))
    assert not may_operate(principal_with("admin", tenant="team"))
    assert not may_operate(principal_with("admin", servers=("github",)))
    assert not may_operate(principal_with("admin", tools=("github_*",)))
    assert not may_operate(principal_with("admin", expires=1.0))


@pytest.mark.covers("R-REG-37")
def test_a_client_without_a_credential_may_do_everything_but_register() -> None:
    assert may_operate(ANONYMOUS)
    assert [it for it in ACTIONS if not holds(ANONYMOUS, it)] == ["register"]
    assert all(holds(LOCAL, it) for it in ACTIONS)


def test_every_action_of_the_table_is_a_scope() -> None:
    assert set(METHODS.values()) <= set(ACTIONS)


SOME_SCOPES = st.sampled_from(
    [frozenset(some) for some in chain(*(combinations(ACTIONS, size) for size in range(5)))]
)
NAMES = st.text("ab*?[]-!_", min_size=1, max_size=6)
PATTERNS = st.lists(NAMES, max_size=3).map(tuple)


@given(scopes=SOME_SCOPES, servers=PATTERNS, tools=PATTERNS, name=NAMES, server=st.none() | NAMES)
def test_a_principal_finds_only_what_it_may_call(
    scopes: frozenset[Scope],
    servers: tuple[str, ...],
    tools: tuple[str, ...],
    name: str,
    server: str | None,
) -> None:
    principal = Principal(subject="key-1", scopes=scopes, servers=servers, tools=tools)
    tool = Tool(name=name, server=server)
    can_read, can_call = may(principal, "read", tool), may(principal, "call", tool)
    assert can_read or not can_call
    if holds(principal, "call"):
        assert can_read is can_call
    visible = visible_to(principal)
    assert (visible is None or visible(tool)) is can_read
