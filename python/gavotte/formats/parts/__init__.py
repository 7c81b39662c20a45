"""What nouns consist of: types of fields that several nouns share, and small records of files that are no noun."""
