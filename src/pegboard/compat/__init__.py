"""The vocabularies of the design documents Pegboard grew out of, each a thin skin over the core."""
