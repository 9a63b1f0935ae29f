"""Sources of the first weights of a network."""
