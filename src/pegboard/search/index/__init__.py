"""The search index: segments, snapshots, scoring, and its file."""
