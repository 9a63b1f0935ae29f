"""Sources of the initial weights of a network."""
