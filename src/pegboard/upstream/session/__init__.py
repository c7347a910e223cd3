"""One session over the MCP SDK: calls in flight, server requests, subscriptions."""
