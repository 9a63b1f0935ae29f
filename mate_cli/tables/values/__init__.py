"""Numbers and dates as people write them in cells, decided by the whole column."""
