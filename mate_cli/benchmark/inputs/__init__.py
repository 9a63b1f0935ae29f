"""What benchmarks measure on: made and real tables."""
