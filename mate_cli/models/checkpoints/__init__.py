"""Readers of checkpoint files in the formats of PyTorch, safetensors and TensorFlow."""
