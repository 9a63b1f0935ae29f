"""Building blocks of networks: embeddings, transformer layers, and attention with trained weights."""
