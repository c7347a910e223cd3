"""The process that serves: start, reload, signals, and how commands find it."""
