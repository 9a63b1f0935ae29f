"""Tasks over graphs of texts, as Transformer-XH has them: rank, read, and judge a statement."""
