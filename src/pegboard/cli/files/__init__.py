"""Files that commands read and change."""
