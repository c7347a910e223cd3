"""Logging in to servers that are protected by OAuth 2.1."""
