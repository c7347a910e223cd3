"""The tools that commands show and call, with or without a running gateway."""
