"""How headers are put into words, and of what kind columns are."""

import pytest
from made_tables import player_table

from mate_cli.data.synthesis.question_columns import find_thing, header_noun, is_sayable, read_columns, subject_column
from mate_cli.tables.table import Cell, Table

NOUNS = {
    "No.": "number",
    "#": "number",
    "Pos .": "position",
    "Capacity ( MW )": "capacity",
    "Director ( s )": "director",
    "Winner/s": "winner",
    "Runner -up": "runner-up",
    "City / Town": "city or town",
    "City , State": "city and state",
    "Team [ a ]": "team",
    "FAA ID": "FAA ID",
    "YEAR": "year",
    "Named after": "namesake",
    "Net worth ( USD )": "net worth",
    "": "",
    "( km )": "",
    "Ref": "",
    "W": "",
    "The whole name of the thing in full": "",
    "Population of": "",
}


@pytest.mark.parametrize("header", NOUNS)
def test_headers_become_nouns(header):
    assert header_noun(header) == NOUNS[header]


def test_kinds_of_columns():
    columns = read_columns(player_table(0))
    assert [(column.noun, column.kind, column.plural) for column in columns] == [
        ("year", "year", False),
        ("player", "person", False),
        ("club", "text", False),
        ("points", "number", True),
        ("city", "place", False),
    ]
    assert subject_column(player_table(0), columns).noun == "player"


def column_of(header, *texts):
    rows = tuple((Cell(text), Cell(str(number))) for number, text in enumerate(texts))
    return next(iter(read_columns(Table("t", (Cell(header), Cell("Other")), rows))), None)


def test_what_happened_at_a_date_is_no_noun():
    column = column_of("Opened", "May 1 , 1990", "June 3 , 1991", "4 July 1999")
    assert (column.kind, column.participle, column.noun) == ("date", "opened", "date opened")
    assert column_of("Opened", "1990", "1991", "1999").noun == "year opened"
    assert column_of("Written", "Ann Lee", "Bob Stone", "Cy Young").noun == "other"


def test_columns_of_the_same_name_are_not_spoken_of():
    rows = tuple((Cell(a), Cell(b), Cell(c)) for a, b, c in ("abx", "cdy", "efz"))
    assert [column.noun for column in read_columns(Table("t", (Cell("Team"), Cell("Team"), Cell("Star")), rows))] == [
        "star"
    ]


def test_cells_that_say_nothing_or_too_much():
    assert [is_sayable(text) for text in ("", "-", "n/a", "TBA", "x " * 9, "{a}")] == [False] * 6
    assert is_sayable("Ann Lee")
    assert is_sayable("0")


def test_what_the_cells_of_a_column_are():
    said = [f"{name} is a large national park in Greece ." for name in ("Oeta", "Ainos", "Olympus")]
    assert find_thing([*said, "Pindus was the last of all ."]) == "park"
    assert find_thing(["Up is a British horror film written by Ann .", "Down was a film directed by Bob ."]) == "film"
    assert find_thing([said[0], "Ann is a painter .", "Bob was a boxer .", "Cy is an actor ."]) == ""
