"""Export of a finished run: weights, transformers format and model card."""
