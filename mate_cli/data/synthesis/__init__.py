"""Training examples generated from tables, without human labels."""
