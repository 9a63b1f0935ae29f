"""MATE experiments on large tables, from the command line."""

__version__ = "0.1.0"
