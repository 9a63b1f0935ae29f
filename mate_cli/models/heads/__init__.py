"""What heads make of the states of a network: scores of cells, spans, classes, words and queries."""
