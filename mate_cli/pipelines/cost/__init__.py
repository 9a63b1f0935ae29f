"""Cost of training, before it begins."""
