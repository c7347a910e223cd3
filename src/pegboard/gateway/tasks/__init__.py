"""Tasks: calls that go on after the request that began them, with their state in the store."""
