"""Skills of all servers and of this machine: listed, verified on the way, found and read."""
