"""The user service: its files, and the programs of the system that run it."""
