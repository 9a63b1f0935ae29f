"""Weight files as others ship them."""
