"""Readers of table files, one module per family of formats, which yield lines of cells and notes for the user."""
