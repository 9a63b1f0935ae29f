"""Answers about own tables: in files, on a page and in the terminal."""
