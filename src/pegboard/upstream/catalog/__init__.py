"""The catalog of a server: its tools listed, put on the board, and cached."""
