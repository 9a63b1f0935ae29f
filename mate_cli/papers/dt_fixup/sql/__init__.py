"""Queries of SQL about databases: what they are made of, how they are read, written, compared and run."""
