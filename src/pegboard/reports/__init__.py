"""Reports: what the command line and the console show of a gateway, computed in one place."""
