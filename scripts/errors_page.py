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
    "ToolConflictError": 'Choose another name, or say `on_conflict=` `"skip"`, `"override"` or `"rename"`.',
    "ToolNotFoundError": "Take a name out of `nearest`, or look with `registry.search(…)` or `pegboard search`.",
    "InvalidPlanError": "Mend the step that `index` names; nothing of the plan has run.",
    "CallRefusedError": "Catch it for every call that certainly did not begin: repeating it does no harm.",
    "AccessDeniedError": "Widen `Access(allow=…, deny=…)`, or give the key the server, the tool or the scope.",
    "ToolDisabledError": "`registry.enable_group(…)`, for each of `groups`.",
    "NotImplementedToolError": "Register something that runs it under this name, or call it where it runs.",
    "InvalidArgumentsError": "Give the message back to the model: `violations` says what to change, and where.",
    "QueueFullError": "Try again later, or raise the `limit` or the `queue` of `Concurrency`.",
    "WouldDeadlockError": "Await the asynchronous form: `registry.acall`, `hub.call`, `tools.call`.",
    "RateLimitedError": "Wait for `retry_after` seconds, or raise the limits of the key.",
    "ToolTimeoutError": "Raise `Deadline`, or `timeouts.call` of the server. With `sent` it may have had effects: look before you repeat.",
    "ToolExecutionError": "Show its text to the model: the tool itself says what went wrong. `result` has the whole answer.",
    "UnauthenticatedError": "Send a key or token that is good; `reason` says what is wrong with this one.",
    "ApiKeyNotFoundError": "`pegboard keys list` shows the ids that there are.",
    "HandleNotFoundError": "Call the tool again: results are kept for some minutes, for whoever made the call.",
    "ConfigError": "Mend the file at `path`, `line` and `column`; `pegboard config check` shows all problems at once.",
    "ServerNotFoundError": "Take a name out of `known`, or `pegboard list`.",
    "InvalidQueryError": "Change what `option` names: the text, the limit, a filter.",
    "InvalidPatternError": "Mend the expression at `position`; look-arounds and back-references are not taken.",
    "SearcherNotFoundError": "Take a method out of `known`, or install the package that offers it.",
    "SearchDataError": "Install Pegboard again; the table comes with it.",
    "StorageError": "Catch it for everything about the store; `url` says which one.",
    "StoreUnavailableError": "Make space, permissions or the database available, and try again: nothing was changed.",
    "StoreDamagedError": "Run what `remedy` says. Nothing in the store was touched.",
    "StoreVersionError": "Use a Pegboard at least as new as the one that wrote it.",
    "RevisionConflictError": "Read again, decide anew, write again.",
    "UpstreamError": "Catch it for everything that is a server's part; `server` names it. `pegboard doctor NAME` says more.",
    "ServerUnavailableError": "`pegboard doctor NAME` names cause and remedy. Nothing was sent: repeating is safe.",
    "ServerTimeoutError": "Raise `timeouts.connect` or `timeouts.list` of the server if it is only slow.",
    "CircuitOpenError": "Wait for `retry_in` seconds, or mend the server.",
    "ServerAuthenticationError": "Give it other credentials: `bearer_token`, `headers` or `oauth` of its entry.",
    "NotConnectedError": "Connect first, or use the hub or client inside its `async with`.",
    "ConnectionLostError": "Look whether the tool has run before you repeat it; the server is brought back by itself.",
    "ProtocolError": "Read `rpc_code` and `rpc_message`: the server refused, or its answer was none.",
}
"""What helps against each error."""

_OPENING = """# Errors

<!-- Made by `python -m scripts.reference` out of the code: change it there. -->

Everything that Pegboard raises by itself is a `PegboardError`, and the built-in error you would expect as well. What a
tool of yours raises reaches you as it is. Each class has a `code` for records and protocols; `sent` says whether the
tool may have been started, and `transient` whether the same call may succeed a moment later.

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
