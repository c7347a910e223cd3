"""The built-in tools of the gateway, one module for each."""
