"""Tables as short texts, for lists of cases."""


def cells_of(text: str) -> list[list[str]]:
    """Return the lines of `a | b / 1 | 2`: the header, then the rows."""
    return [[cell.strip() for cell in line.split("|")] for line in text.split(" / ")]
