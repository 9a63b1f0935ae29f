"""Where the first weights of a network come from."""
