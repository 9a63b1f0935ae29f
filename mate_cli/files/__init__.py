"""Files: here, and where they come from."""
