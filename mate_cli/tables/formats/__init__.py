"""One file per family of table files: each yields lines of cells and says what it did to get them."""
