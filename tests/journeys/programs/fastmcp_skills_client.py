"""FastMCP's client with its extension for skills: `URL`; lists, verifies, prints what it saw."""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

import hashlib
import json
import sys

import anyio
from fastmcp import Client
from fastmcp.skills import ListSkillsResult, SkillsClientExtension
from fastmcp.skills.models import ListSkillsParams, ListSkillsRequest


async def main(url: str) -> None:
    async with Client(url, mode="2026-07-28", extensions=[SkillsClientExtension()]) as client:
        request = ListSkillsRequest(params=ListSkillsParams())
        listed = await client.session.send_request(request, ListSkillsResult)
        seen: dict[str, object] = {}
        for skill in listed.skills:
            verified = True
            for file in skill.resources:
                [content] = await client.read_resource(file.uri)
                found = hashlib.sha256(content.text.encode()).hexdigest()
                verified = verified and file.digest == f"sha256:{found}"
            seen[skill.uri] = {"verified": verified, "description": skill.frontmatter.description}
        prompts = [it.name for it in await client.list_prompts()]
        found = await client.call_tool("search_tools", {"query": "git branches"})
        read = await client.call_tool("get_skill", {"name": "git-workflow"})
        print(  # noqa: T201 - the test reads it
            json.dumps(
                {
                    "skills": seen,
                    "prompts": prompts,
                    "found": found.content[0].text,
                    "read": read.content[0].text,
                }
            )
        )


anyio.run(main, sys.argv[1])
