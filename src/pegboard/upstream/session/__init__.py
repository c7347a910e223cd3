"""One session with a server: negotiation, calls in flight, server requests, subscriptions."""
