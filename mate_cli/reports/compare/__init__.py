"""Comparisons of runs as data: configurations, result tables, statistics and significance.

Nothing is rendered here.
"""
