"""Exit codes of commands, for scripts."""

__all__ = ["DONE", "FAILED", "INTERRUPTED", "MISUSED", "NOT_FOUND"]

DONE = 0
FAILED = 1
"""It was not done, or something is wrong; standard error says what."""
MISUSED = 2
"""The command line itself is wrong."""
NOT_FOUND = 3
"""There is no such tool, server, key or file, or no configuration; or the search found nothing."""
INTERRUPTED = 130
