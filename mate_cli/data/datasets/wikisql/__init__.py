"""Reader of WikiSQL."""
