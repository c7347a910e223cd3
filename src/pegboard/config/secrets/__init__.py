"""Secrets of a configuration: variables, the keyring, and plain text that should be neither."""
