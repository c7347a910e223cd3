"""What commands do with MCP registries: open them, show entries, ask for values, upgrade."""
