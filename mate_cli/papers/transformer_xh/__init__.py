"""Transformer-XH: evidence graphs whose texts hop between each other (Zhao et al., ICLR 2020)."""
