"""The command line: `pegboard`, one module a command."""
