"""Comparisons of runs as data: configurations, tables, statistics and significance.

Nothing is rendered here.
"""
