"""Networks: one per file."""
