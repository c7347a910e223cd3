"""The pages of the console, one module each: what is read for a page, and who may see it."""
