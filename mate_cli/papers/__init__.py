"""A room for each paper beside MATE and its baselines, with all that only this paper needs; the core imports none."""
