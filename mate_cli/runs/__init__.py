"""Folders, records, locks and processes of runs."""
