"""A comparison as one self-contained page."""
