"""Networks: one per file; what all have in common is in `base`."""
