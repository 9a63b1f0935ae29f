"""The stages of Hybrider: rank nodes, hop in their row, read a page."""
