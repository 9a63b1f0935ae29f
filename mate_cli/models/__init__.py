"""Networks, one per file. Their base classes are in `base`."""
