"""Golden cases of heuristic exact match from google-research/tapas.

They contain two tables, their questions and the selected columns or tokens.
"""

from dataclasses import replace

from golden import numbers

from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.table import Cell, Table

GOLDEN = numbers("tapas/g7_conversion_and_pruning")


def cases(level):
    """Return the names of the cases that select columns (COLUMN) or tokens (CELL)."""
    return [name for name in GOLDEN["hem"] if name.startswith(f"{level}/")]


def most_tokens(name):
    return int(name.split("/")[1][3:])


def example_of(name):
    """Return the question of a case.

    Cases with "prev1" include the previous question and its answer.
    """
    _, _, previous, table_name, question = name.split("/")
    raw, place = GOLDEN["tables"][table_name], int(question[1:])
    rows = tuple(tuple(map(Cell, row)) for row in raw["rows"])
    table = Table(table_name, tuple(map(Cell, raw["columns"])), rows)
    texts, answers = zip(*GOLDEN["questions"][table_name], strict=True)
    coordinates = [tuple(map(tuple, answer)) for answer in answers]
    example = TableExample(name, texts[place], table, Answer((), coordinates[place]))
    if previous == "prev0" or not place:
        return example
    return replace(example, history=texts[:place], previous_cells=coordinates[place - 1])
