"""Loading of batches: cached encodings of examples, in an order given by the seed."""
