"""What happens before and after a command: completion, signals, error messages."""
