"""JSON-RPC messages of servers, the channels that carry them, and how they fail."""
