"""Encodes a question and a table as flat arrays of tokens."""
