"""Serializers of questions and tables, one module per encoding."""
