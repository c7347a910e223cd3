"""JSON-RPC messages of servers: read within limits, careless ones included."""
