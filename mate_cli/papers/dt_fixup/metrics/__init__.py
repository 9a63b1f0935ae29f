"""Metrics of SQL queries."""
