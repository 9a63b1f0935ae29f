"""Numbers and dates in cells of user tables. The whole column determines their format."""
