"""Calls through the gateway: running them, questions to the client, and the result cache."""
