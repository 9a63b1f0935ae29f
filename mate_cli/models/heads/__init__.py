"""Output heads: logits of cells, classes and aggregations from the hidden states of a network."""
