"""How files are read, checked and written, and how the kind of a file is recognised."""
