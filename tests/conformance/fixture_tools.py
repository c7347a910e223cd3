"""The tools of the fixture: they ask in mid-call, report progress, write logs and change lists."""

import hashlib
import hmac
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import anyio
import mcp_types as types
from mcp import MCPError
from mcp.server import ServerRequestContext
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ConfigDict

from tests.conformance import fixture_content as content

Context: TypeAlias = ServerRequestContext[Any, Any]
Answers: TypeAlias = dict[str, dict[str, Any]]
Result: TypeAlias = dict[str, Any]
Tool: TypeAlias = Callable[[Context, Mapping[str, Any]], Awaitable[Result]]

TOOLS: dict[str, Tool] = {}
_KEY = secrets.token_bytes(16)
_PAUSE = 0.05
"""Between notifications: the suite wants to see them apart."""
_CAPABILITIES = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling"}


class InputNeeded(Exception):  # noqa: N818 - nothing went wrong
    """A client of the modern era has to answer questions first; carries what it is answered."""

    def __init__(self, result: Result) -> None:
        super().__init__()
        self.result = result


class _Anything(BaseModel):
    model_config = ConfigDict(extra="allow")


def is_modern(ctx: Context) -> bool:
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


async def answers(ctx: Context, questions: dict[str, content.Question], state: str = "") -> Answers:
    """Return what the client answers: pushed to it in one era, in its repeated call in the other.

    Raises:
        InputNeeded: when a client of the modern era has not answered yet.
    """
    if not is_modern(ctx):
        return {key: await _push(ctx, question) for key, question in questions.items()}
    given = _responses(ctx)
    if not all(isinstance(given.get(key), dict) for key in questions):
        result: Result = {"resultType": "input_required", "inputRequests": questions}
        raise InputNeeded({**result, "requestState": sign(state)} if state else result)
    if state and verified(ctx) != state:
        raise MCPError(types.INVALID_PARAMS, "This requestState belongs to another round.")
    return {key: given[key] for key in questions}


def sign(state: str) -> str:
    return f"{state}.{hmac.new(_KEY, state.encode(), hashlib.sha256).hexdigest()}"


def verified(ctx: Context) -> str:
    """Return the state that the client gives back; empty if it gives none."""
    given = str((ctx.params or {}).get("requestState") or "")
    state, _, _ = given.partition(".")
    if given and not hmac.compare_digest(given, sign(state)):
        raise MCPError(types.INVALID_PARAMS, "This requestState was not made here.")
    return state


def _responses(ctx: Context) -> dict[str, Any]:
    given = (ctx.params or {}).get("inputResponses")
    return given if isinstance(given, dict) else {}


async def _push(ctx: Context, question: content.Question) -> dict[str, Any]:
    kinds: dict[str, type[BaseModel]] = {
        "elicitation/create": types.ElicitRequest,
        "sampling/createMessage": types.CreateMessageRequest,
        "roots/list": types.ListRootsRequest,
    }
    request: Any = kinds[question["method"]].model_validate(question)
    metadata = ServerMessageMetadata(related_request_id=ctx.request_id)
    answer = await ctx.session.send_request(request, _Anything, metadata=metadata)
    return answer.model_dump(by_alias=True)


def said(words: str) -> Result:
    return {"content": [content.text(words)]}


def tool(function: Tool) -> Tool:
    TOOLS[function.__name__] = function
    return function


@tool
async def test_error_handling(ctx: Context, arguments: Mapping[str, Any]) -> Result:
    return {**said("This tool intentionally returns an error for testing"), "isError": True}


@tool
async def test_tool_with_logging(ctx: Context, arguments: Mapping[str, Any]) -> Result:
    await _log(ctx, "Tool execution started")
    await anyio.sleep(_PAUSE)
    await _log(ctx, "Tool processing data")
    await anyio.sleep(_PAUSE)
    await _log(ctx, "Tool execution completed")
    return said("Logged three times.")


@tool
async def test_logging_tool(ctx: Context, arguments: Mapping[str, Any]) -> Result:
    await _log(ctx, "Only for those who asked for it")
    return said("Logged for those who asked for it.")


async def _log(ctx: Context, words: str) -> None:
    send: Any = ctx.session.send_log_message  # pyright: ignore[reportDeprecated]
    await send("info", words, logger="fixture", related_request_id=ctx.request_id)


@tool
async def test_tool_with_progress(ctx: Context, arguments: Mapping[str, Any]) -> Result:
    for done in (0, 50, 100):
        await ctx.session.report_progress(done, 100, f"Completed {done} of 100")
        await anyio.sleep(_PAUSE)
    return said("Reported three times.")


@tool
async def test_sampling(ctx: Context, arguments: Mapping[str, Any]) -> Result:
    found = await answers(ctx, {"sample": content.sample(str(arguments.get("prompt", "")))})
    return said(f"LLM response: {found['sample']['content']['text']}")


@tool
async def test_elicitation(ctx: Context, arguments: Mapping[str, Any]) -> Result:
    username = {"type": "string", "description": "User's response"}
    email = {"type": "string", "description": "User's email address"}
    question = content.form(str(arguments.get("message", "")), username=username, email=email)
    found = (await answers(ctx, {"user": question}))["user"]
    return said(f"User response: <action: {found['action']}, content: {found.get('content')}>")


@tool
async def test_elicitation_sep1034_defaults(ctx: Context, arguments: Mapping[str, Any]) -> Result:
    return await _elicited(ctx, content.DEFAULTS)


@tool
async def test_elicitation_sep1330_enums(ctx: Context, arguments: Mapping[str, Any]) -> Result:
    return await _elicited(ctx, content.ENUMS)


async def _elicited(ctx: Context, question: content.Question) -> Result:
    found = (await answers(ctx, {"form": question}))["form"]
    return said(f"Elicitation completed: action={found['action']}, content={found.get('content')}")


@tool
async def test_missing_capability(ctx: Context, arguments: Mapping[str, Any]) -> Result:
    wanted = types.ClientCapabilities(sampling=types.SamplingCapability())
    if not ctx.session.check_client_capability(wanted):
        code = types.MISSING_REQUIRED_CLIENT_CAPABILITY
        needed = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(code, "This tool needs sampling.", needed)
    return said("This client can sample.")


@tool
async def test_streaming_elicitation(ctx: Context, arguments: Mapping[str, Any]) -> Result:
    await ctx.session.report_progress(1, 2, "About to ask")
    await answers(ctx, {"confirm": content.CONFIRM})
    return said("Confirmed.")


@tool
async def test_input_required_result_elicitation(
    ctx: Context, arguments: Mapping[str, Any]
) -> Result:
    found = await answers(ctx, {"user_name": content.NAME})
    return said(f"Hello, {found['user_name'].get('content', {}).get('name')}!")


@tool
async def test_input_required_result_sampling(ctx: Context, arguments: Mapping[str, Any]) -> Result:
    question = content.sample("What is the capital of France?")
    found = await answers(ctx, {"capital_question": question})
    return said(f"The answer was: {found['capital_question']['content']['text']}")


@tool
async def test_input_required_result_list_roots(
    ctx: Context, arguments: Mapping[str, Any]
) -> Result:
    found = await answers(ctx, {"client_roots": content.ROOTS})
    return said(f"Roots: {[root['uri'] for root in found['client_roots']['roots']]}")


@tool
async def test_input_required_result_request_state(
    ctx: Context, arguments: Mapping[str, Any]
) -> Result:
    await answers(ctx, {"confirm": content.CONFIRM}, "confirming")
    return said("state-ok")


@tool
async def test_input_required_result_tampered_state(
    ctx: Context, arguments: Mapping[str, Any]
) -> Result:
    await answers(ctx, {"confirm": content.CONFIRM}, "untouched")
    return said("state-ok")


@tool
async def test_input_required_result_multiple_inputs(
    ctx: Context, arguments: Mapping[str, Any]
) -> Result:
    questions = {
        "user_name": content.NAME,
        "greeting": content.sample("Generate a greeting", 50),
        "client_roots": content.ROOTS,
    }
    found = await answers(ctx, questions, "three-at-once")
    return said(f"Answered: {sorted(found)}")


@tool
async def test_input_required_result_multi_round(
    ctx: Context, arguments: Mapping[str, Any]
) -> Result:
    name = content.form("Step 1: What is your name?", name=content.STRING)
    color = content.form("Step 2: What is your favorite color?", color=content.STRING)
    if not is_modern(ctx):
        await answers(ctx, {"step1": name, "step2": color})
    elif verified(ctx) in {"", "first"} and "step2" not in _responses(ctx):
        await answers(ctx, {"step1": name}, "first")
        await answers(ctx, {"step2": color}, "second")
    else:
        await answers(ctx, {"step2": color}, "second")
    return said("Both steps are done.")


@tool
async def test_input_required_result_capabilities(
    ctx: Context, arguments: Mapping[str, Any]
) -> Result:
    capabilities = ctx.session.client_capabilities
    questions = {"user_name": content.NAME, "greeting": content.sample("Generate a greeting", 50)}
    may_ask = {
        key: question
        for key, question in questions.items()
        if getattr(capabilities, _CAPABILITIES[question["method"]], None) is not None
    }
    return said(f"Answered: {sorted(await answers(ctx, may_ask))}")
