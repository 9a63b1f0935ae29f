"""Datasets: one per file, read as their authors ship them."""
