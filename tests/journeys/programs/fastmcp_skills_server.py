"""A real server with skills: FastMCP serves the skills in a folder over stdio: `FOLDER`."""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

import sys

from fastmcp import FastMCP
from fastmcp.server.providers.skills import SkillsDirectoryProvider
from fastmcp.skills.extension import SkillsExtension

server = FastMCP("library")
provider = SkillsDirectoryProvider(sys.argv[1], reload=True, experimental_skills=True)
server.add_provider(provider)
server.add_extension(SkillsExtension(providers=[provider]))


@server.tool
def count_words(text: str) -> int:
    """Count the words of a text."""
    return len(text.split())


if __name__ == "__main__":
    server.run(show_banner=False)
