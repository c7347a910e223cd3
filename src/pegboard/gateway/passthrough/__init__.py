"""Passthrough: the resources, prompts and completions of the servers."""
