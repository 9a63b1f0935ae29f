"""Building blocks of networks: embeddings, layers, and attention with weights."""
