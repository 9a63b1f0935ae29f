"""Terminal output: consoles, progress lines, and streams without control characters.

Tables, questions and file names are untrusted text, so control characters are removed before they can control the
terminal.
"""
