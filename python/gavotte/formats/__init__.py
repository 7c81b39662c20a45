"""File formats: one module, one validated type and one format for each noun."""
