"""Networks, heads and first weights of DT-Fixup."""
