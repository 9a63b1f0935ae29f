"""Figures of reports, one type per module."""
