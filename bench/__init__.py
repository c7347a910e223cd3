"""Measurements against real peers: `make bench`."""

import os

# Programs are measured as people have them, compiled once. Where this is set they would compile
# every module at every start: a third of the time of a short command, and more with many modules.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
