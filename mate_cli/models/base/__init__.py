"""Base classes of networks: the table encoder, its sizes, output and operation counts."""
