"""Tasks that servers make of calls: polled until they end, so that a call returns its result."""
