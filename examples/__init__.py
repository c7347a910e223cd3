"""Programs that show Pegboard at work; `make run` runs the demo."""
