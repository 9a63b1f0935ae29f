"""Tables, numbers and texts in pure Python."""
