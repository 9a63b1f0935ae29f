"""Hybrider: question linking, labels, serializers, tasks and the three-stage system."""
