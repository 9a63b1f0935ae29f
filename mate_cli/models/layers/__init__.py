"""Building blocks of the networks: embeddings, encoder, heads."""
