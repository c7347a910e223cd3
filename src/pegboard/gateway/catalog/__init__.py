"""What a client is listed: surfaces, groups, and servers that still start."""
