"""The house rules: small rooms, plain names, one purpose for each module."""

import ast
import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest

import pegboard

SOURCE = Path(pegboard.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))
ROOMS = sorted({path.parent for path in MODULES if path.parent != SOURCE})
MOST_MODULES = 15
ALL_MODULES = 650
# One file for each command, and one tree of errors, however many these are.
CROWDED = {"cli/commands", "errors"}
SMALLEST = 40
# Small on purpose: a protocol, a policy or the like, for which a reader looks under its own name.
SMALL = {
    "cli/exit_codes.py": "the table of exit codes",
    "lazy_names.py": "below every room",
    "policies/policy.py": "a protocol",
    "policies/validation.py": "a policy",
    "search/methods/bm25.py": "a searcher, one a file",
    "version.py": "below every room",
}
# Pictures that only their authors understood; each has a plain word now.
# fmt: off
PICTURES = {
    "acts", "announcing", "answers", "apart", "arrivals", "asking", "attendance", "browsers",
    "depths", "desk", "endings", "errand", "fold", "folding", "following", "front_desk", "heat",
    "introduction", "itself", "keeping", "kept", "knocking", "landmarks", "life", "line",
    "made_once", "moments", "news", "nursery", "offers", "one_at_a_time", "opening", "overheard",
    "owners_desk", "parked", "pieces", "places", "questions", "recall", "reception", "shelf",
    "shortcut", "sight", "standing", "strays", "surroundings", "unanswered", "visit", "warming",
}
# What an engineer of this field greps for.
WORDS = [
    "access", "api_keys", "audit", "authentication", "backoff", "bm25", "bridge",
    "cache", "catalog", "circuit", "command", "completion", "concurrency", "config", "cors",
    "deadline", "defaults", "dialects", "disconnect", "drain", "elicitation", "embedding",
    "env_file", "errors", "evaluation", "event_stream", "export", "fork", "gemini", "groups",
    "guardian", "health", "host", "http", "hub", "hybrid", "import", "index", "json_path",
    "jsonc", "jsonrpc", "jwt", "legacy", "limits", "listing", "log", "mcp_json", "metrics",
    "migrations", "notifications", "oauth", "openai", "orphans", "otel", "persistence", "plan",
    "policy", "postgres", "process", "prompts", "ranking", "recovery", "redaction", "registry",
    "reload", "request_audit", "request_pipeline", "resources", "result_cache", "retry", "routes",
    "schema", "scopes", "search_tools", "secrets", "segment", "server_requests", "session",
    "settings", "signals", "snapshot", "spinner", "sqlite", "sse", "stateful", "stateless",
    "stderr", "stdio", "subscriptions", "surfaces", "suspended", "telemetry", "tenant", "threads",
    "token", "tool_names", "tracing", "translate", "transport", "types", "typos", "uris", "usage",
    "uvicorn", "validation", "variables", "vectors", "version", "visibility", "watch",
    "websocket", "words",
]
# fmt: on
VAGUE = re.compile(
    r"\b(?:who|whom)ever\b|\b(?:some|no|any|every)(?:body|one)\b(?!\s+of)|\bno one\b(?!\s+of)",
    re.IGNORECASE,
)


def relative(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def purpose(path: Path) -> str:
    docstring = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    return docstring.partition("\n")[0]


def test_there_are_not_more_modules_than_a_person_can_survey() -> None:
    assert len(MODULES) <= ALL_MODULES


@pytest.mark.parametrize("room", ROOMS, ids=relative)
def test_a_folder_holds_few_modules(room: Path) -> None:
    if relative(room) not in CROWDED:
        modules = [path.name for path in room.glob("*.py") if path.name != "__init__.py"]
        assert len(modules) <= MOST_MODULES


def test_a_module_that_is_small_is_small_for_a_reason() -> None:
    small = {
        relative(path)
        for path in MODULES
        if path.name != "__init__.py"
        and path.parent.name not in ("commands", "pages")
        and len(path.read_text("utf-8").splitlines()) < SMALLEST
    }
    assert small == SMALL.keys()


def test_the_fields_own_words_are_in_the_paths() -> None:
    paths = " ".join(map(relative, MODULES))
    assert [word for word in WORDS if word not in paths] == []


def test_no_path_is_a_private_picture() -> None:
    stems = {part for path in MODULES for part in (path.stem, path.parent.name)}
    assert stems & PICTURES == set()


def test_a_public_class_name_is_used_once() -> None:
    homes: defaultdict[str, list[str]] = defaultdict(list)
    for path in MODULES:
        if relative(path).startswith("compat/"):
            continue
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(relative(path))
    assert {name: files for name, files in homes.items() if len(files) > 1} == {}


def test_every_module_says_in_one_line_what_it_is_for() -> None:
    unclear = [relative(path) for path in MODULES if not purpose(path).endswith(".")]
    assert unclear == []


def test_two_modules_of_a_folder_are_not_for_the_same() -> None:
    lines = Counter((path.parent, purpose(path)) for path in MODULES if path.name != "__init__.py")
    assert [it for it, times in lines.items() if times > 1] == []


@pytest.mark.parametrize("room", ROOMS, ids=relative)
def test_code_and_comments_name_the_actor(room: Path) -> None:
    found = [
        f"{relative(path)}:{number}: {line.strip()}"
        for path in room.glob("*.py")
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if VAGUE.search(line)
    ]
    assert found == []


def test_a_logger_is_named_after_its_room() -> None:
    # So that a module can move without renaming a log that people filter.
    for path in MODULES:
        for name in re.findall(
            r"^logger.* = .*getLogger\((.*)\)", path.read_text("utf-8"), re.MULTILINE
        ):
            assert name == f'"pegboard.{relative(path).split("/")[0]}"', relative(path)
