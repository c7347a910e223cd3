"""Each of the five systems, or a table of what it does, beside the names that we offer for it."""
