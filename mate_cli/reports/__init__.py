"""Reports on finished runs; reads run folders only."""
