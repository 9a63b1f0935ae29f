"""Small files as people and programs write them, with the tables that they hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from mate_cli.tables.read import read_table

CASES = Path(__file__).with_name("cases")
TABLES = {
    "09_quotes_even_in_number/films.tsv": (["id", "title", "year"], 5, "Some quotation marks do not fit together"),
    "10_delimiter_tie/namen.csv": (["Nr", "Name, Vorname", "Betrag"], 3, "separated by semicolons"),
    "11_lines_above_the_table/short.csv": (["name", "n", "m"], 2, "# exported"),
    "11_lines_above_the_table/two_titles.csv": (["region", "q1", "q2"], 12, "2 lines above the table"),
    "11_lines_above_the_table/worldbank.csv": (
        ["Country Name", "Country Code", "Indicator Name", "2019", "2020"],
        12,
        "2 lines above the table",
    ),
    "12_pandas_index_of_one_column/series.csv": (["column 1", "n"], 3, "without a name"),
    "13_backslash_quotes/songs.csv": (["Title", "Year", "Note"], 2, "Backslashes"),
    "14_space_before_quote/people.csv": (["id", "name", "amount"], 2, ""),
    "15_hash_delimiter_one_column/tabfact.csv": (["name", "n"], 2, "'#'"),
    "15_hash_delimiter_one_column/spaces.txt": (["name", "value"], 2, "spaces"),
    "22_json_shapes/index.json": (["region", "sales"], 2, ""),
    "22_json_shapes/table.json": (["region", "sales"], 2, ""),
}


@pytest.mark.parametrize("file", TABLES)
def test_a_file_holds_the_table_that_its_writer_sees(file):
    header, rows, note = TABLES[file]
    table, notes = read_table(CASES / file)
    assert [cell.text for cell in table.header] == header
    assert len(table.rows) == rows
    assert any(note in line for line in notes) if note else notes == []


def test_quotation_marks_are_part_of_a_text_where_they_are_escaped():
    table, _ = read_table(CASES / "13_backslash_quotes/songs.csv")
    assert table.rows[0][0].text == 'A "Blue" Song'
    assert table.rows[1][2].text == 'says "no, never", twice'
