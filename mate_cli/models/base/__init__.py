"""Base classes of networks: the table encoder, its sizes, its output and its operation counts."""
