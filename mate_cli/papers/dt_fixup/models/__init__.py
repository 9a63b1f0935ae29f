"""Networks, output heads and weight initialization of DT-Fixup."""
