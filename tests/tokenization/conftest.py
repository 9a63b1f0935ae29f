import json

import pytest
from golden import tapas

from mate_cli.tables.table import Cell, Table


@pytest.fixture(scope="session")
def linked_table():
    """The small linked table of the reference's numbers, its passages in the order of its sentences."""
    golden = json.loads(tapas("g6_hybridqa.json").read_text())
    raw = golden["table"]
    rows = tuple(tuple(Cell(text, tuple(links)) for text, links in row) for row in raw["data"])
    links = [f"/wiki/{name}" for name in ("Atlanta", "Sydney", "Athens", "Ann_Lee", "Bob_Stone", "Boxing")]
    header = tuple(Cell(text) for text, _ in raw["header"])
    return Table(raw["uid"], header, rows, passages={link: golden["descriptions"][link] for link in links})
