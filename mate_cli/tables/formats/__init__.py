"""Readers of table files, one module per family of formats. Every module yields lines of cells and notes for the user."""
