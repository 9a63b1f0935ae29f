"""Tables with what is said of them, for pre-training: sources, shards, and what must not be learnt from."""
