"""Secrets of a configuration: variables, `.env` files, the keyring, and secrets in plain text."""
