"""Text of tools and queries: words, fields, and which words a tool has."""
