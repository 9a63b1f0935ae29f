"""MRQA: reading datasets in one layout."""
