"""Schemas of databases beside a question: which of its words name what, and how all of them relate."""
