"""Resources, prompts and completions of an upstream, seen through the gateway."""

import json

import anyio
import mcp_types as types
import pytest
from mcp import MCPError
from mcp.client.subscriptions import ResourceUpdated

from tests.conformance import fixture_content as content
from tests.journeys.journey import Cell, text_of
from tests.journeys.workshop import WATCHED

pytestmark = pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")


async def test_resources_and_templates_are_listed(cell: Cell) -> None:
    async with cell.open() as it:
        uris = {str(it.uri) for it in (await it.client.list_resources()).resources}
        assert uris >= set(content.RESOURCES)
        templates = (await it.client.list_resource_templates()).resource_templates
        assert [template.uri_template for template in templates] == [content.TEMPLATE]


async def test_texts_and_bytes_are_read(cell: Cell) -> None:
    async with cell.open() as it:
        (text,) = (await it.client.read_resource("test://static-text")).contents
        assert isinstance(text, types.TextResourceContents)
        assert text.text == content.RESOURCES["test://static-text"]["text"]
        (blob,) = (await it.client.read_resource("test://static-binary")).contents
        assert isinstance(blob, types.BlobResourceContents)
        assert (blob.blob, blob.mime_type) == (content.PNG, "image/png")


async def test_what_a_template_stands_for_is_read(cell: Cell) -> None:
    async with cell.open() as it:
        (found,) = (await it.client.read_resource("test://template/42/data")).contents
        assert isinstance(found, types.TextResourceContents)
        assert json.loads(found.text)["id"] == "42"


async def test_a_resource_that_is_not_there_is_an_error_that_names_it(cell: Cell) -> None:
    async with cell.open() as it:
        with pytest.raises(MCPError) as caught:
            await it.client.read_resource("test://nowhere")
        error = caught.value.error
        if cell.client == "modern":
            assert (error.code, error.data["uri"]) == (types.INVALID_PARAMS, "test://nowhere")


async def test_a_client_that_watches_a_resource_is_told_that_it_changed(cell: Cell) -> None:
    async with (
        cell.open() as it,
        it.changes(ResourceUpdated, resource_subscriptions=[WATCHED]) as heard,
    ):
        if cell.client == "legacy":
            await it.subscribe(WATCHED)
        if cell.upstream == "legacy":
            with anyio.fail_after(5):
                await it.workshop.subscribed.wait()
        await it.workshop.touch()
        told = await heard.first(ResourceUpdated, types.ResourceUpdatedNotification)
        uri = told.uri if isinstance(told, ResourceUpdated) else told.params.uri
        assert str(uri) == WATCHED


async def test_the_last_to_watch_ends_the_watching_at_the_upstream(cell: Cell) -> None:
    async with cell.open() as it:
        async with it.changes(ResourceUpdated, resource_subscriptions=[WATCHED]):
            if cell.client == "legacy":
                await it.subscribe(WATCHED)
            if cell.upstream == "legacy":
                with anyio.fail_after(5):
                    await it.workshop.subscribed.wait()
        if cell.client == "legacy":
            await it.unsubscribe(WATCHED)
        if cell.upstream == "legacy":
            with anyio.fail_after(5):
                await it.workshop.unsubscribed.wait()


async def test_prompts_are_listed_and_filled_in(cell: Cell) -> None:
    async with cell.open() as it:
        prompts = {prompt.name: prompt for prompt in (await it.client.list_prompts()).prompts}
        assert set(prompts) == set(content.PROMPTS)
        arguments = prompts["test_prompt_with_arguments"].arguments or []
        assert [argument.name for argument in arguments] == ["arg1", "arg2"]
        given = {"arg1": "hello", "arg2": "world"}
        filled = await it.client.get_prompt("test_prompt_with_arguments", given)
        assert text_of(filled) == "Prompt with arguments: arg1='hello', arg2='world'"
        pictured = await it.client.get_prompt("test_prompt_with_image")
        assert pictured.messages[0].content.type == "image"


async def test_arguments_of_prompts_and_templates_are_completed(cell: Cell) -> None:
    async with cell.open() as it:
        prompt = types.PromptReference(name="test_prompt_with_arguments")
        found = await it.client.complete(prompt, {"name": "arg1", "value": "par"})
        assert found.completion.values == ["paris", "park", "party"]
        template = types.ResourceTemplateReference(uri=content.TEMPLATE)
        found = await it.client.complete(template, {"name": "id", "value": "past"})
        assert found.completion.values == ["pasta"]
