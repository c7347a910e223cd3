"""A call through the gateway: run, bridged between eras, and its result kept."""
