"""Output heads: logits of cells, classes and aggregations from hidden states."""
