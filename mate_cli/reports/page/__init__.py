"""A comparison as one self-contained page: a file per section."""
