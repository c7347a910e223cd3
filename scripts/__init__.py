"""What writes parts of the documentation: `python -m scripts.reference`."""
