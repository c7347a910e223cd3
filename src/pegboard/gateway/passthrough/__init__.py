"""Resources, prompts and completions of servers, passed through."""
