"""Reader of HybridQA, and of the sample dataset."""
