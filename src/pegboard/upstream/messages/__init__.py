"""JSON-RPC messages of servers: parsed within limits, also when they are malformed."""
