"""The catalogue of a server: listed, put on the board, and cached."""
