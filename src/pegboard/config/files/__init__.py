"""Configuration files: found, read in any client's dialect, and edited."""
