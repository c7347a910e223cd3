"""Runs what `use-with-llm-sdks.md` says with the real SDKs, in an environment that has them.

Their answers come from transports that have been told what to say; nothing leaves the machine.
"""
# The SDKs are in another environment than the checks.
# pyright: reportMissingImports=false, reportMissingTypeStubs=false, reportAttributeAccessIssue=false

import ast
import contextlib
import inspect
import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import anthropic
import anyio
import httpx
import httpx2
import openai
from agents import OpenAIChatCompletionsModel, RunConfig, Runner
from google import genai
from google.genai import types
from langchain.agents import create_agent
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

PAGE = Path(__file__).parents[2] / "docs/guides/use-with-llm-sdks.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


async def names_of_page() -> dict[str, Any]:
    """Return everything that the blocks of the page define."""
    space: dict[str, Any] = {"__name__": "docs"}
    with contextlib.redirect_stdout(io.StringIO()):
        for source in BLOCK.findall(PAGE.read_text("utf-8")):
            code = compile(source, PAGE.name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            result = eval(code, space)
            if inspect.iscoroutine(result):
                await result
    return space


def openai_says(request: Any) -> Any:
    asked = json.loads(request.content)
    told = asked["messages"][-1]
    message: dict[str, Any] = {"role": "assistant", "content": told["content"]}
    if told["role"] != "tool":
        name = asked["tools"][0]["function"]["name"]
        call = {"name": name, "arguments": '{"city": "Oslo"}'}
        wanted = {"id": "call_1", "type": "function", "function": call}
        message = {"role": "assistant", "content": None, "tool_calls": [wanted]}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    answer = {"id": "1", "object": "chat.completion", "created": 1, "model": "m"}
    return {**answer, "choices": [choice]}


def anthropic_says(request: Any) -> Any:
    asked = json.loads(request.content)
    told = asked["messages"][-1]["content"]
    if isinstance(told, list):
        reason, block = "end_turn", {"type": "text", "text": told[0]["content"]}
    else:
        name = asked["tools"][0]["name"]
        block = {"type": "tool_use", "id": "toolu_1", "name": name, "input": {"city": "Oslo"}}
        reason = "tool_use"
    answer = {"id": "1", "type": "message", "role": "assistant", "model": "m", "content": [block]}
    used = {"input_tokens": 1, "output_tokens": 1}
    return {**answer, "stop_reason": reason, "stop_sequence": None, "usage": used}


def gemini_says(request: Any) -> Any:
    asked = json.loads(request.content)
    told = asked["contents"][-1]["parts"][0].get("functionResponse")
    if told is not None:
        part: dict[str, Any] = {"text": told["response"]["result"]}
    else:
        name = asked["tools"][0]["functionDeclarations"][0]["name"]
        part = {"functionCall": {"name": name, "args": {"city": "Oslo"}}}
    return {"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}]}


class ToldChatModel(GenericFakeChatModel):
    """A model that has been told what to say, whatever tools it is given."""

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self


def langchain_says() -> Any:
    call = {"type": "tool_call", "id": "1", "name": "forecast", "args": {"city": "Oslo"}}
    said = [AIMessage("", tool_calls=[call]), AIMessage("done")]
    return ToldChatModel(messages=iter(said))


def transport(kind: Any, says: Any) -> Any:
    return kind.MockTransport(lambda request: kind.Response(200, json=says(request)))


async def main() -> None:
    page = await names_of_page()
    # Which of the two its versions want is not known to the type checker.
    wanted: Any = openai.DefaultAsyncHttpxClient
    speaks: Any = httpx2 if issubclass(wanted, httpx2.AsyncClient) else httpx
    http = speaks.AsyncClient(transport=transport(speaks, openai_says))
    said = {
        "openai": await page["ask_openai"](openai.AsyncOpenAI(api_key="k", http_client=http), "?")
    }
    http2 = httpx2.AsyncClient(transport=transport(httpx2, anthropic_says))
    claude = anthropic.AsyncAnthropic(api_key="k", http_client=http2)
    said["anthropic"] = await page["ask_anthropic"](claude, "?")
    options = types.HttpOptions(async_client_args={"transport": transport(httpx, gemini_says)})
    said["gemini"] = await page["ask_gemini"](genai.Client(api_key="k", http_options=options), "?")
    chained = create_agent(langchain_says(), page["plain"].langchain())
    ran = await chained.ainvoke({"messages": [("user", "?")]})
    said["langchain"] = ran["messages"][-2].content
    whole = Agent(TestModel(), toolsets=[page["plain"].pydantic_ai()])
    said["pydantic-ai"] = (await whole.run("?")).output
    functions = Agent(TestModel(), tools=page["plain"].functions())
    said["pydantic-ai, functions"] = (await functions.run("?")).output
    model = OpenAIChatCompletionsModel("m", openai.AsyncOpenAI(api_key="k", http_client=http))
    agent = page["agent_of_the_sdk"](page["plain"], model)
    offline = RunConfig(tracing_disabled=True)
    said["openai-agents"] = (await Runner.run(agent, "?", run_config=offline)).final_output
    json.dump(said, sys.stdout)


anyio.run(main)
