"""Inference with a run or checkpoint: answers about user tables, and hidden states."""
