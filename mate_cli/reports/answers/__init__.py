"""Answers about user tables: in files, on a page and in the terminal."""
