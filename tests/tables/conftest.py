import json

import pytest
from golden import tapas

from mate_cli.tables.table import Cell, Table


def read_linked_table():
    golden = json.loads(tapas("g6_hybridqa.json").read_text())
    raw = golden["table"]
    rows = tuple(tuple(Cell(text, tuple(links)) for text, links in row) for row in raw["data"])
    header = tuple(Cell(text) for text, _ in raw["header"])
    order = ["Atlanta", "Sydney", "Athens", "Ann_Lee", "Bob_Stone", "Boxing"]
    passages = {f"/wiki/{name}": golden["descriptions"][f"/wiki/{name}"] for name in order}
    return Table(raw["uid"], header, rows, title=raw["title"], passages=passages)


@pytest.fixture(scope="session")
def linked_table():
    return read_linked_table()
