"""The seven nouns: one module, one validated type and one file format each."""
