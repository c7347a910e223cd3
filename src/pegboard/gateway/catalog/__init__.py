"""The tools that a client sees: surfaces, groups, and servers that are still starting."""
