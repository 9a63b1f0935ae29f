"""Transformer-XH: evidence graphs with hop attention (Zhao et al., ICLR 2020)."""
