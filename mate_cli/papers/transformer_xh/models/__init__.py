"""Networks and heads of Transformer-XH."""
