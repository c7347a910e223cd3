"""The tools that the gateway itself offers, one file each."""
