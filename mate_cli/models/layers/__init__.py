"""Building blocks of the networks: embeddings, attention with weights of its own, layers."""
