"""Read, check and write files, and recognise the kind of a file."""
