"""Selection of rows, columns and cells, and truncation of cells, to fit a token budget."""
