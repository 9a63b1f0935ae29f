"""Labelled questions of the user's own: in files, or in a dataset of the `datasets` library."""
