"""Training examples that are made from tables, without anybody's labels."""
