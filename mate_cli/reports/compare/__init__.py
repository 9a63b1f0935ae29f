"""Runs side by side as plain values: groups, tables, statistics and significance; nothing here is drawn."""
