"""A finished run as a folder for others: its weights, its format for transformers, its model card."""
