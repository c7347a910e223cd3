"""The terminal: output, prompts, spinners, and values that a person types."""
