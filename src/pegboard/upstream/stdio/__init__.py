"""Servers that are processes: started, talked to over their pipes, and never left behind."""
