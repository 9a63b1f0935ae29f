"""Labelled questions of the user, in files or in a dataset of the `datasets` library."""
