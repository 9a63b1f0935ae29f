"""Turns examples into batches: encodes them once, caches the encodings, and orders them by the seed."""
