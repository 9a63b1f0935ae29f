"""Parts of every network: the encoder of tables, its sizes, its output, and its operations."""
