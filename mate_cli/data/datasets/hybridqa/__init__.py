"""HybridQA."""
