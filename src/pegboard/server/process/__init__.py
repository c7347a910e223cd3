"""The serving process: assembly, start, config reload, signals, drain, and its discovery."""
