"""The datasets, a folder each: a reader, and `release.json` with all that is known of the release."""
