"""Datasets in the terminal: which there are, and what a check has found."""
