"""What training will cost, before it begins."""
