"""Search methods: bm25, hybrid, embedding, regex and names."""
