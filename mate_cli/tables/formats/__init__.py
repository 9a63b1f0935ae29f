"""Readers of table files, which yield lines of cells and notes for the user."""
