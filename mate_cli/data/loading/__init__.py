"""From examples to batches: encoded once and kept, in an order that the seed decides."""
