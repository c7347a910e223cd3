"""Discovery: what the gateway publishes about itself, for editors and clients that look for it."""
