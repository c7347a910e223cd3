"""Agent frameworks: the tools of a toolset for LangChain, pydantic-ai and OpenAI Agents.

Each module imports its framework, which an extra of the same name installs.
"""
