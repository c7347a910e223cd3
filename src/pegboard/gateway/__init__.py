"""Gateway: what is answered to MCP clients, whatever wire they come by."""
