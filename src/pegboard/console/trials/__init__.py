"""Trials: call a tool from a page, with a form for its arguments and a view of its result."""
