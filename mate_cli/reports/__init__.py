"""Reports on runs, read only from run folders."""
