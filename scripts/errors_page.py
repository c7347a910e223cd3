"""The page with every error: when it is raised, what it carries, what to do."""
# ruff: noqa: E501 - sentences, one to an error, read best on one line each

import ast
import inspect
import textwrap

from pegboard import errors
from pegboard.errors import PegboardError

__all__ = ["REMEDIES", "page"]

REMEDIES = {
    "PegboardError": "Catch it where any failure of Pegboard is handled alike.",
    "ForkedProcessError": "Open the registry, hub or store in the child, or start the child with `spawn` instead of `fork`.",
    "InvalidToolError": "Register a function, a `Tool`, or an object with `name` and `call`; the message says what is missing.",
    "ToolConflictError": 'Choose another name, or pass `on_conflict=` `"skip"`, `"override"` or `"rename"`.',
    "ToolNotFoundError": "Use a name from `nearest`, or search with `registry.search(…)` or `pegboard search`.",
    "InvalidPlanError": "Correct the step that `index` names. No step of the plan has run.",
    "CallRefusedError": "Catch it for every call that certainly did not begin: repeating it does no harm.",
    "AccessDeniedError": "Widen `Access(allow=…, deny=…)`, or grant the server, the tool or the scope to the key.",
    "ToolDisabledError": "Call `registry.enable_group(…)` for each of `groups`.",
    "NotImplementedToolError": "Register an implementation under this name, or call the tool in the program that implements it.",
    "InvalidArgumentsError": "Return the message to the model: `violations` says what to change, and where.",
    "QueueFullError": "Try again later, or raise the limit or the `queue` of `Concurrency`.",
    "WouldDeadlockError": "Await the asynchronous form: `registry.acall`, `hub.call`, `tools.call`.",
    "RateLimitedError": "Wait for `retry_after` seconds, or raise the limits of the key.",
    "LimitReachedError": "Give back something of what you hold, or wait for `retry_after` seconds; `setting` names the limit, which all callers share.",
    "ToolTimeoutError": "Raise `Deadline`, or `timeouts.call` of the server. If `sent` is true, the tool may have had effects: check before you repeat the call.",
    "ToolExecutionError": "Show the message to the model: the tool itself says what went wrong. `result` holds the whole result.",
    "UnauthenticatedError": "Send a valid key or token; `reason` says what is wrong with this one.",
    "ApiKeyNotFoundError": "Run `pegboard keys list` to see the ids of all keys.",
    "HandleNotFoundError": "Call the tool again. A result is cached for some minutes, and only for the caller that made the call.",
    "ConfigError": "Correct the file at `path`, `line` and `column`; `pegboard config check` shows all problems at once.",
    "ServerNotFoundError": "Use a name from `known`, or run `pegboard list`.",
    "InvalidQueryError": "Change what `option` names: the text, the limit or a filter.",
    "InvalidPatternError": "Correct the expression at `position`. Look-arounds and back-references are not supported.",
    "SearcherNotFoundError": "Use a method from `known`, or install the package that provides it.",
    "SearchDataError": "Install Pegboard again: the word table is a part of it.",
    "StorageError": "Catch it to handle every failure of a store; `url` says which store.",
    "StoreUnavailableError": "Free disk space, correct the permissions or start the database, and try again. Nothing was changed.",
    "StoreDamagedError": "Run the command in `remedy`. Nothing in the store was changed.",
    "StoreVersionError": "Use a Pegboard at least as new as the one that wrote the store.",
    "RevisionConflictError": "Read the value again, decide anew, and write again.",
    "UpstreamError": "Catch it to handle every failure of a server; `server` is its name. `pegboard doctor NAME` says more.",
    "ServerUnavailableError": "Run `pegboard doctor NAME`: it names the cause and the remedy. Nothing was sent, so repeating the call is safe.",
    "ServerTimeoutError": "Raise `timeouts.connect` or `timeouts.list` of the server if it is only slow.",
    "CircuitOpenError": "Wait for `retry_in` seconds, or repair the server.",
    "ServerAuthenticationError": "Set other credentials in the server's entry: `bearer_token`, `headers` or `oauth`.",
    "UntrustedAddressError": "Check the authorization server of the server. If you trust it, add `host` to `oauth.trusted_hosts` of the server's entry. Nothing was sent to it.",
    "NotConnectedError": "Connect first, or use the hub or client inside its `async with`.",
    "ConnectionLostError": "Check whether the tool has run before you repeat the call. Pegboard reconnects the server by itself.",
    "ProtocolError": "Read `rpc_code` and `rpc_message`: the server refused the request, or its response was invalid.",
    "TaskError": "Check whether the tool has run before you repeat the call. `task` is the id that the server gave the task.",
    "TaskLostError": "Check whether the tool has run before you repeat the call. The server has restarted, or keeps tasks for too short a time.",
    "TaskCancelledError": "Repeat the call if its work is still wanted.",
    "TaskTimeoutError": "Raise `timeouts.task` of the server if its tasks take longer. Pegboard has asked the server to cancel the task.",
    "UnsupportedResultError": "Check whether the tool has run before you repeat the call. Configure the server to answer with plain results.",
}
"""What the reader of the page can do about each error."""

_OPENING = """# Errors

<!-- Made by `python -m scripts.reference` out of the code: change it there. -->

Every error that Pegboard itself raises is a `PegboardError`, and also the built-in error that you would expect. An
exception of your own tool reaches you as it was raised. Each class has a `code` for records and protocols. `sent` says
whether the tool may have been started, and `transient` says whether the same call may succeed a moment later.

```text
{tree}
```
"""


def page() -> str:
    """Return the text of the page."""
    whole = inspect.getdoc(errors) or ""
    start = whole.index("    PegboardError")
    tree = textwrap.dedent(whole[start : whole.index("\n\n", start)]).rstrip()
    parts = [_OPENING.format(tree=tree)]
    parts += [_section(kind) for kind in _family(PegboardError)]
    return "\n".join([*parts, "## As classes\n", "::: pegboard.errors\n"])


def _family(kind: type[PegboardError]) -> list[type[PegboardError]]:
    children = [it for it in kind.__subclasses__() if it.__name__ in errors.__all__]
    children.sort(key=lambda it: list(REMEDIES).index(it.__name__))
    return [kind, *(it for child in children for it in _family(child))]


def _section(kind: type[PegboardError]) -> str:
    words = (inspect.getdoc(kind) or "").replace("``", "`")
    kinds = [it.__name__ for it in kind.__bases__ if it not in (PegboardError, Exception)]
    carried = [name for name in _attributes(kind) if f"`{name}`" not in words]
    also = f"; also a {' and a '.join(f'`{it}`' for it in kinds)}" if kinds else ""
    lines = [f"## `{kind.__name__}`\n", f"Code `{kind.code}`{also}.\n", words]
    if carried:
        lines.append(f"\nCarries {', '.join(f'`{it}`' for it in carried)}.")
    return "\n".join([*lines, f"\n**What to do:** {REMEDIES[kind.__name__]}\n"])


def _attributes(kind: type[PegboardError]) -> list[str]:
    """Return what its own `__init__` sets, in order."""
    if "__init__" not in vars(kind):
        return []
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind.__init__)))
    found = [
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    ]
    return list(dict.fromkeys(found))
