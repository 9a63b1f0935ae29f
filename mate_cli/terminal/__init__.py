"""Terminal output.

Tables, questions and file names are untrusted and cannot control the terminal.
"""
