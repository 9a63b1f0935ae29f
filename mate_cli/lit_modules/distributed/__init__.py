"""Several processes at one task: predictions brought together, weights cut in shards."""
