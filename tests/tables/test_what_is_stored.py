"""Own tables by what is stored in them: headers, rows and sums of small files of many kinds."""

from __future__ import annotations

import pandas
import pytest

from mate_cli.data.datasets.labelled.rows import inline_table
from mate_cli.errors import DataError
from mate_cli.tables.denotation import compute, find_summands
from mate_cli.tables.numbers import column_values
from mate_cli.tables.read import read_table
from mate_cli.tables.read_options import ReadOptions
from mate_cli.tables.table import Table

from test_small_files import CASES  # isort: skip

NONE = None
FILES = {
    "27_red_negatives/red.xlsx": ("item profit", 3, [NONE, 950.25]),
    "27_red_negatives/red_percent.xlsx": ("item change", 2, [NONE, 3]),
    "27_red_negatives/red_euro.xlsx": ("item profit", 3, [NONE, 950.25]),
    "28_second_header_row/pandas.csv": ("column 1|sales 2020|sales 2021|cost 2020", 2, [NONE, 5, 7, 9]),
    "28_second_header_row/pandas_no_index.csv": ("sales 2020|sales 2021|cost 2020", 2, [5, 7, 9]),
    "28_second_header_row/by_hand.xlsx": (
        "Region|Sales 2020|Sales 2021|Cost 2020|Cost 2021",
        2,
        [NONE, 40, 60, 12, 14],
    ),
    "29_mac_1904/mac.xlsx": ("day n", 2, [NONE, 3]),
    "30_accounting_zero/comma_style.xlsx": ("item amount", 3, [NONE, 1165]),
    "30_accounting_zero/hidden_zero.xlsx": ("item n", 3, [NONE, 12]),
    "31_shown_not_stored/millions.xlsx": ("item revenue", 3, [NONE, 7050000]),
    "31_shown_not_stored/rounded.xlsx": ("item hours", 3, [NONE, 1.2]),
    "31_shown_not_stored/scientific.xlsx": ("item x", 2, [NONE, 3580245]),
    "32_codes_as_amounts/sku_tl.csv": ("sku qty", 3, [NONE, 6]),
    "32_codes_as_amounts/letter_behind.csv": ("authority n", 3, [NONE, 6]),
    "33_wider_rows_at_the_end/one.csv": ("id name age column_4 column_5 column_6", 3, [2204, NONE]),
    "33_wider_rows_at_the_end/blank_between.csv": ("id name country city column_5", 3, [4, NONE]),
    "34_dates_beyond_9999/before_year_1.parquet": ("n t", 2, [3, NONE]),
    "34_dates_beyond_9999/year_10000.parquet": ("n t", 2, [3, NONE]),
    "35_objects_one_after_another/jq.json": ("color k", 2, [NONE, 3]),
    "36_aligned_one_space/rank.txt": ("UCC PAY Rank Team Conf", 4, [16, 18, 18, NONE, NONE]),
    "37_signs_of_western_files/pounds50.csv": ("item price", 50, [NONE, 1250]),
    "37_signs_of_western_files/sq.csv": ("flat area", 3, [NONE, 185]),
    "38_one_nul_in_a_small_file/nul.csv": ("a b c", 2, [4, 7, 9]),
    "39_remarks_as_wide_as_the_table/remarks.xlsx": (
        "Name|Job|Age|Has kids|Born|Died",
        3,
        [NONE, NONE, 219, NONE, NONE, NONE],
    ),
    "40_equals_quoted_text/ids.csv": ("id n", 2, [NONE, 3]),
    "41_markdown_table/table.txt": ("a b", 2, [4, 6]),
    "42_more_kinds/13b_german_point_alone.csv": ("Stadt Einwohner", 3, [NONE, 14721]),
    "42_more_kinds/d38_psql.txt": ("name amount", 2, [NONE, 2184]),
    "42_more_kinds/x2_merged_two_level.xlsx": ("Region|2019 Q1|2019 Q2|2020 Q1|2020 Q2", 2, [NONE, 6, 8, 10, 12]),
    "42_more_kinds/08_dates_yyyymmdd.csv": ("Name|order date", 3, [NONE, NONE]),
    "42_more_kinds/b71_total_text_row.csv": ("Region Umsatz", 3, [NONE, 2000.5]),
    "42_more_kinds/32_rand.csv": ("Name Amount", 2, [NONE, 1334.49]),
}


def sums(table):
    rows = range(len(table.rows))
    return [compute("sum", [(row, column) for row in rows], table) for column in range(len(table.header))]


@pytest.mark.parametrize("file", FILES)
def test_a_file_is_read_as_its_writer_means_it(file):
    names, rows, right = FILES[file]
    table, _ = read_table(CASES / file)
    expected = names.split("|") if "|" in names else [name.replace("_", " ") for name in names.split()]
    assert [cell.text for cell in table.header] == expected
    assert len(table.rows) == rows
    assert sums(table)[: len(right)] == pytest.approx(right)


CELLS = {
    "29_mac_1904/mac.xlsx": ["1920-01-01", "1948-01-01"],
    "34_dates_beyond_9999/year_10000.parquet": [None, None],
    "37_signs_of_western_files/dash.csv": ["2019–20", "2020–21"],  # noqa: RUF001
    "37_signs_of_western_files/mu.csv": ["5 µg", "7 µg"],
    "40_equals_quoted_text/ids.csv": ["00123", "00456"],
}


@pytest.mark.parametrize("file", CELLS)
def test_first_cells(file):
    table, _ = read_table(CASES / file)
    expected = CELLS[file]
    if expected[0] is None:
        assert table.rows[0][1].text == "10000-01-02"
    else:
        assert [row[0].text for row in table.rows] == expected


def read(tmp_path, text, name="t.csv", **options):
    (tmp_path / name).write_text(text, encoding="utf-8")
    return read_table(tmp_path / name, ReadOptions(**options))


HEADERS = {
    "pandas with names of levels": ("metric,a,a,b\nyear,2020,2021,2020\nregion,,,\nn,1,2,3\ns,4,5,6\n",
        "metric year region | a 2020 | a 2021 | b 2020"),
    "pandas with names of levels alone": ("metric,a,a,b\nstat,mean,std,mean\nn,1,2,3\ns,4,5,6\n",
        "metric stat | a mean | a std | b mean"),
    "numbers as groups": (",5 mg,,10 mg,\nSex,n,SD,n,SD\nf,1,2,3,4\nm,5,6,7,8\n",
        "Sex | 5 mg n | 5 mg SD | 10 mg n | 10 mg SD"),
    "groups above the first columns": ("Region,Sales,,Cost,\n,Q1,Q2,Q1,Q2\nN,10,20,5,6\nS,30,40,7,8\n",
        "Region | Sales Q1 | Sales Q2 | Cost Q1 | Cost Q2"),
    "one group": ("Region,2020,,\n,Jan,Feb,Mar\nN,1,2,3\nS,5,6,7\n", "Region | 2020 Jan | 2020 Feb | 2020 Mar"),
    "three levels": (",2020,,2021,\n,H1,H2,H1,H2\nRegion,EUR,EUR,EUR,EUR\nN,1,2,3,4\nS,5,6,7,8\n",
        "Region | 2020 H1 EUR | 2020 H2 EUR | 2021 H1 EUR | 2021 H2 EUR"),
    "units": ("name,speed,weight\n,km/h,kg\nA,100,20\nB,120,30\n", "name | speed km/h | weight kg"),
    "units in brackets": ("Time,Voltage\n[s],[V]\n0.1,5\n0.2,6\n", "Time [s] | Voltage [V]"),
    "two columns of one name": ("name,score,score\nAnn,5,6\nBob,7,8\n", "name | score | score (2)"),
    "years as rows": ("name,year,year\nAnn,2015,2016\nBob,2017,2018\n", "name | year | year (2)"),
    "a text among numbers": ("name,age\nBob,unknown\nAnn,5\nCy,7\n", "name | age"),
    "two wider rows at the end": ("a,b\n1,2\n3,4,5,6\n3,4,5,6\n", "a | b | column 3 | column 4"),
    "a title above one column": ("Report\nvalue\n3\n4\n5\n", "Report"),
    "one name less than each row": ("n\nA,5\nB,6\n", "column 1 | n"),
    "a unit below one column": ("Weights\nkg\n3\n4\n5\n", "Weights kg"),
    "a title with a comma": ("Sales by region, 2023\nRegion,Sales,Cost\nN,1,2\nS,3,4\n", "Region | Sales | Cost"),
    "years of two groups beside keys": (",,A,A,B,B\nNr,Name,2019,2020,2019,2020\n1,x,100,445,4,5\n2,y,118,487,6,7\n",
        "Nr | Name | A 2019 | A 2020 | B 2019 | B 2020"),
    "years of one group": (",People,\nLand,2019,2020\nN,1,2\nS,3,4\n", "Land | 2019 | 2020"),
    "years that span two": (",People,People\nLand,2019/20,2020-2021\nN,1,2\nS,3,4\n",
        "Land | People 2019/20 | People 2020-2021"),
    "units beside the name of rows": (",Sales,Weight\nLand,EUR,kg\nN,1,2\nS,3,4\n", "Land | Sales EUR | Weight kg"),
    "words for units": ("Kreis;Betriebe;Umsatz\n;Anzahl;Tsd. EUR\nN;5;90\nS;6;80\n",
        "Kreis | Betriebe Anzahl | Umsatz Tsd. EUR"),
    "words for units below two levels": (
        ";Einwohner;Einwohner\n;Frauen;Männer\n;Anzahl;Anzahl\n2010;40;41\n2011;42;43\n",
        "column 1 | Einwohner Frauen Anzahl | Einwohner Männer Anzahl"),
    "words in the first row": ("name,score,score\nAnn,DNS,DNS\nBob,7,8\nCy,5,6\n", "name | score | score (2)"),
    "groups of texts": ("Person,Home,,Work,\n,City,Land,City,Land\nAnn,Rome,IT,Oslo,NO\nBo,Bern,CH,Kiel,DE\n",
        "Person | Home City | Home Land | Work City | Work Land"),
    "pandas with two columns of names of rows": (
        ",,sales,sales\n,,2020,2021\nregion,city,,\nn,x,1,2\nn,y,4,5\ns,z,4,5\n",
        "region | city | sales 2020 | sales 2021"),
    "keys and values as wide as the table": ("Company,ACME,x\nYear,2024,y\n\nregion,sales,cost\nn,10,1\ns,20,2\n",
        "region | sales | cost"),
    "years as names": ("Country,2019,2020,2021\nA,1,2,3\nB,4,5,6\n", "Country | 2019 | 2020 | 2021"),
}  # fmt: skip


@pytest.mark.parametrize("name", HEADERS)
def test_headers_of_several_lines_are_joined(tmp_path, name):
    text, expected = HEADERS[name]
    assert " | ".join(cell.text for cell in read(tmp_path, text)[0].header) == expected


def test_a_header_line_that_is_typed_is_joined_too(tmp_path):
    text = "sales,sales,cost\n2020,2021,2020\n1,2,3\n4,5,6\n"
    for line in (1, 2):
        table, _ = read(tmp_path, text, header=line)
        assert [cell.text for cell in table.header] == ["sales 2020", "sales 2021", "cost 2020"]
    assert sums(table) == [5, 7, 9]


SUMS = {
    "a zero before three decimals": ("n,v\na,1.234\nb,0.512\nc,708.896\nd,127.297\ne,462.484\n", 1300.423, ""),
    "rupees only": ('n,v\na,"Rs. 80,602/-"\nb,"1,05,000/-"\n', 185602, ""),
    "zero proves nothing": ("n;v\na;0 km\nb;987 km\nc;1.234 km\n", 2221, "Decimal commas"),
    "money with points": ("n;v\na;€ 1.234\nb;€ 987\nc;€ 12.500\n", 14721, "Decimal commas"),
    "points that nothing explains": ("n;v\na;1.234\nb;2.500\n", None, "locale=de"),
    "points beside proven ones": ("n;v;w\na;1.234;0.5\nb;2.500;1.25\n", 3.734, ""),
    "points beside groups with commas": ("n;v;w\na;1.234;1,204\nb;2.500;3,100\n", 3.734, ""),
    "money with points beside commas": ("n;v;w\na;€ 1.234;1,204\nb;€ 2.500;3,100\n", None, "locale=de"),
    "dates as numbers": ("n,v\na,20240131\nb,20240229\n", None, ""),
    "moments as numbers": ("n,v\na,20240131093000\nb,20240229101500\n", None, ""),
    "months below a name": ("n,month\na,202401\nb,202402\n", None, ""),
    "large numbers": ("n,v\na,20240131\nb,20249999\n", 40490130, ""),
    "ringgit": ("n,v\na,RM1\nb,RM2\n", None, ""),
    "ringgit and sen": ("n,v\na,RM1\nb,RM2.50\n", 3.5, ""),
    "seats": ("n,v\na,12A\nb,14A\n", None, ""),
    "lines of a box": ("│ a │ b │\n├───┼───┤\n│ x │ 1 │\n│ y │ 5 │\n│ z │ 7 │\n", 13, ""),
    "a description of pandas": (
        "n,v\na,100\nb,70\nc,31\ncount,3\nmean,67\nstd,34.598\nmin,31\n25%,50.5\n50%,70\n75%,85\nmax,100\n",
        201,
        "",
    ),
    "a mean in Japanese": ("n,v\na,100\nb,70\nc,31\n平均,67\n", 201, ""),
    "discounts": ("n,v\n10%,5\n25%,8\n50%,9\n75%,11\n", 33, ""),
    "a file's own rule": ("a|b\n---|---\n1|2\n3|4\n", 6, ""),
}


@pytest.mark.parametrize("name", SUMS)
def test_sums_are_true_or_not_given(tmp_path, name):
    text, right, note = SUMS[name]
    table, notes = read(tmp_path, text)
    assert sums(table)[1] == right
    assert any(note in line for line in notes) or not note


@pytest.mark.parametrize("mark", ["NA", "-", "n/a", "\\N", ".", ""])
def test_marks_of_nothing_are_left_out_and_said(tmp_path, mark):
    table, _ = read(tmp_path, f"name,v\na,5\nb,{mark}\nc,7\n")
    cells = [(row, 1) for row in range(3)]
    assert compute("sum", cells, table) == 12
    assert compute("average", cells, table) == 6
    assert find_summands(cells, table)[1] == [f"1 cell without a value left out: {mark!r}."]


def test_other_texts_are_no_marks_of_nothing(tmp_path):
    table, _ = read(tmp_path, "name,v\na,5\nb,about ten\nc,7\n")
    assert compute("sum", [(row, 1) for row in range(3)], table) is None


def test_the_row_of_a_total_is_no_summand(tmp_path):
    table, _ = read(tmp_path, "region,v\nn,5\ns,7\nTotal,12\n")
    assert compute("sum", [(row, 1) for row in range(3)], table) == 12
    assert compute("average", [(row, 1) for row in range(3)], table) == 6
    assert "'Total' was left out" in find_summands([(row, 1) for row in range(3)], table)[1][0]
    assert compute("sum", [(2, 1)], table) == 12
    table, _ = read(tmp_path, "region,v\nn,5\ns,7\nTotal,13\n")
    assert compute("sum", [(row, 1) for row in range(3)], table) is None
    assert "'Total' may summarize other rows" in find_summands([(row, 1) for row in range(3)], table)[1][0]


@pytest.mark.parametrize(
    "name",
    [
        *("Net total", "Total in EUR", "Gesamtergebnis", "Zwischensumme", "Totalt", "I alt", "Ukupno", "計", "*"),
        *("Ensemble", "Celkový součet", "Yhteensä", "Ogółem", "World", "Balance"),
    ],
)
def test_totals_are_told_by_their_word_and_by_adding_up(tmp_path, name):
    table, _ = read(tmp_path, f"region,v\nn,5\ns,7\n{name},12\n")
    assert compute("sum", [(row, 1) for row in range(3)], table) == 12
    table, _ = read(tmp_path, "region,v\nn,5\ns,7\nMean,9\n")
    assert compute("sum", [(row, 1) for row in range(3)], table) is None
    table, _ = read(tmp_path, "comarca,v\nn,5\ns,7\nAlt Camp,13\n")
    assert compute("sum", [(row, 1) for row in range(3)], table) == 25


@pytest.mark.parametrize("name", ["Total général", "**Total**", "Total (3)", "Sum of above", "Kokku", "Tổng cộng"])
def test_a_named_total_that_is_no_sum_is_doubtful(tmp_path, name):
    table, _ = read(tmp_path, f"region,v\nn,5\ns,7\n{name},13\n")
    assert sums(table)[1] is None


@pytest.mark.parametrize(
    ("name", "value"),
    [("Medelvärde", 67), ("Mediana", 70), ("Mean value", 67), ("SEM", 19.97), ("var", 1197), ("Écart-type", 34.6)],
)
def test_statistics_are_told_by_their_word_and_value(tmp_path, name, value):
    assert sums(read(tmp_path, f"n,v\na,100\nb,70\nc,31\n{name},{value}\n")[0])[1] == 201


def test_the_margins_of_a_pivot_table_are_no_summands(tmp_path):
    table, _ = read(tmp_path, "region,a,All\nn,5,5\ns,7,7\nAll,12,12\n")
    assert compute("sum", [(row, 1) for row in range(3)], table) == 12
    table, _ = read(tmp_path, "team,v\nn,5\ns,7\nAll Blacks,12\n")
    assert compute("sum", [(row, 1) for row in range(3)], table) == 24


LAYOUTS = {
    "keys and values above a blank line": (
        "Company,ACME,\nYear,2024,\n\nregion,sales,cost\nn,10,1\ns,20,2\n",
        "region|sales|cost",
    ),
    "equal groups of equal years": (
        "region,A,A,A\n,2020,2020,2021\n,plan,actual,plan\nn,10,11,12\ns,20,21,22\n",
        "region|A 2020 plan|A 2020 actual|A 2021 plan",
    ),
    "a source below as wide as the table": ("k,v,w\nn,10,1\ns,20,2\n\nSource: Office, Berlin, 2024\n", "k|v|w"),
    "numbers of columns": ("k;v;w\n1;2;3\nn;10.0;1.5\ns;20.0;2.5\n", "k|v|w"),
    "numbers of columns in parentheses": ("k,v,w\n(1),(2),(3)\nn,10,1\ns,20,2\n", "k|v|w"),
    "a header that stands twice": ("k,v,w\nk,v,w\nn,10,1\ns,20,2\n", "k|v|w"),
    "a first row that counts": ("a,b,c\n1,2,3\n4,28,\n", "a|b|c"),
    "a source below with empty cells": ("k,v,w\nn,10,1\ns,20,2\nSource: office,,\n", "k|v|w"),
    "a French source": ("k;v;w\nn;10;1\ns;20;2\nSource : Insee;;\n", "k|v|w"),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_remarks_and_levels_are_told_from_names_and_rows(tmp_path, name):
    text, header = LAYOUTS[name]
    table, _ = read(tmp_path, text)
    assert "|".join(cell.text for cell in table.header) == header
    assert len(table.rows) == 2
    assert compute("sum", [(0, 1), (1, 1)], table) == 30


def test_numbers_that_are_read_as_names_are_said(tmp_path):
    rows = "5.1,3.5,setosa\n4.9,3.0,setosa\n6.3,3.3,virginica\n"
    note = "Numbers were read as names of columns (header=none reads that line as a row)."
    assert note in read(tmp_path, rows)[1]
    assert note not in read(tmp_path, rows, header=0)[1]
    assert note not in read(tmp_path, "name,2019,2020\nn,5.1,3.5\ns,4.9,3.0\n")[1]
    assert note not in read(tmp_path, "name,3,n\nn,5.1,3.5\ns,4.9,3.0\n")[1]


def test_decimal_commas_that_shift_columns_are_named(tmp_path):
    assert any("shifted" in note for note in read(tmp_path, "name,price\nA,1,50\nB,2,75\nC,3,05\n")[1])
    assert not any("shifted" in note for note in read(tmp_path, "name,price\nA,1\nB,2\n")[1])


RULED = {
    "MySQL": "+---+---+\n| a | b |\n+---+---+\n| x | 1 |\n| y | 2 |\n+---+---+\n2 rows in set (0.00 sec)\n",
    "Oracle": "A    B\n---- -\nx y  1\nz    2\n",
    "SAP": "-----------\n|A  |B    |\n-----------\n|x  |1    |\n|y  |2    |\n-----------\n",
    "reStructuredText": "===  ===\na    b\n===  ===\nx      1\ny      2\n===  ===\n",
    "Polars": "shape: (2, 2)\n┌─────┬─────┐\n│ a   ┆ b   │\n│ --- ┆ --- │\n│ str ┆ i64 │\n╞═════╪═════╡\n"
    "│ x   ┆ 1   │\n│ y   ┆ 2   │\n└─────┴─────┘\n",
    "R": "# A tibble: 2 x 2\n  a         b\n  <chr> <dbl>\n  x         1\n  y         2\n",
    "Markdown": "| a | b |\n|:--|--:|\n| x | 1 |\n| y | 2 |\n",
}


@pytest.mark.parametrize("name", RULED)
def test_lines_that_are_drawn_are_no_rows(tmp_path, name):
    table, _ = read(tmp_path, RULED[name], "t.txt")
    assert [cell.text.lower() for cell in table.header] == ["a", "b"]
    assert sums(table) == [None, 3]


def test_data_frames_and_tables_in_rows_keep_their_numbers():
    frame = pandas.DataFrame({"a": ["1.204", 12.5, "x"], "b": [0.1, 0.2, 0.3]})
    table = Table.from_pandas(frame)
    assert compute("sum", [(row, 1) for row in range(3)], table) == pytest.approx(0.6)
    assert compute("sum", [(1, 0)], table) == 12.5
    split = inline_table({"columns": ["p", "g"], "data": [["Ann", 12], ["Bo", 7]]})
    assert sums(split) == [None, 19]


def test_comparisons_take_the_stored_number():
    table, _ = read_table(CASES / "31_shown_not_stored/millions.xlsx")
    assert column_values(row[1].text for row in table.rows) == {0: 2500000, 1: 3600000, 2: 950000}
    assert table.formats[1].read_sortable(table.rows[2][1].text) == 950000


@pytest.mark.parametrize(("column", "total"), [("B", 8), ("C", 6)])
def test_hidden_rows_and_columns_are_said_and_can_be_left_out(tmp_path, column, total):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["a", "b", "c"], ["x", 1, 2], ["y", 3, 4], ["z", 5, 6]):
        book.active.append(row)
    book.active.row_dimensions[3].hidden = book.active.column_dimensions[column].hidden = True
    book.save(tmp_path / "t.xlsx")
    table, notes = read_table(tmp_path / "t.xlsx")
    assert sums(table) == [None, 9, 12]
    assert notes == ["1 hidden row and 1 hidden column read too (hidden=false leaves them out)."]
    table, _ = read_table(tmp_path / "t.xlsx", ReadOptions(hidden=False))
    assert sums(table) == [None, total]


def test_a_hidden_last_column_is_said(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["a", "b", "c"], ["x", 1, 2], ["y", 3, 4]):
        book.active.append(row)
    book.active.column_dimensions["C"].hidden = True
    book.save(tmp_path / "t.xlsx")
    for hidden, done in ((True, "read too (hidden=false leaves them out)"), (False, "left out")):
        _, notes = read_table(tmp_path / "t.xlsx", ReadOptions(hidden=hidden))
        assert notes == [f"1 hidden column {done}."]


def test_a_column_of_the_type_variant_is_refused_by_name(tmp_path):
    import pyarrow
    from pyarrow.parquet import write_table

    kind = pyarrow.struct([("metadata", pyarrow.binary()), ("value", pyarrow.binary())])
    values = pyarrow.array([{"metadata": b"1", "value": b"2"}], kind)
    write_table(pyarrow.table({"n": [1], "v": values}), tmp_path / "t.parquet")
    with pytest.raises(DataError, match="the column 'v' is of the type VARIANT"):
        read_table(tmp_path / "t.parquet")


@pytest.mark.parametrize(
    "cells",
    [
        ("01.2024", "02.2024", "12.2024"),
        ("2024.01", "2024.02", "2024.12"),
        ("01.04", "02.04", "13.04"),
        ("08.30", "09.15", "10.00"),
    ],
    ids="/".join,
)
def test_months_days_and_times_with_points_have_no_sum(tmp_path, cells):
    table, _ = read(tmp_path, "when,n\n" + "".join(f"{cell},1\n" for cell in cells))
    assert compute("sum", [(row, 0) for row in range(3)], table) is None
    order = [table.formats[0].read_sortable(cell) for cell in cells]
    assert order == sorted(order), "but an order"


def test_an_accounting_zero_and_blank_cells_are_no_values(tmp_path):
    table, _ = read(tmp_path, "name,paid\na,$ 4.50\nb,$ -\nc,$ 2.00\n")
    assert compute("sum", [(row, 1) for row in range(3)], table) == 6.5
    table, _ = read(tmp_path, "name;paid\na; 1.234,50 € \nb;-   35,50 € \nc; -   € \n")
    assert compute("sum", [(row, 1) for row in range(3)], table) == 1199
    table, _ = read(tmp_path, "id,discount\na,0.5\nb,\nc,\nd,\ne,3.5\n")
    assert compute("sum", [(row, 1) for row in range(5)], table) == 4


def test_other_columns_prove_a_decimal_point_beside_short_numbers(tmp_path):
    table, _ = read(tmp_path, "name,score,price\na,39,1.5\nb,67,2.5\nc,52.375,3.25\n")
    assert compute("sum", [(row, 1) for row in range(3)], table) == 158.375


@pytest.mark.long
@pytest.mark.timeout(20)
def test_a_sum_of_many_cells_takes_no_time_for_each_pair_of_them(tmp_path):
    count = 30_000
    table, _ = read(tmp_path, "name,n\n" + "".join(f"row {place},1\n" for place in range(count)) + f"Total,{count}\n")
    assert compute("sum", [(row, 1) for row in range(count + 1)], table) == count


def test_a_row_that_begins_with_mean_is_no_total(tmp_path):
    table, _ = read(tmp_path, "film,v\nMean Girls,5\nb,5\n")
    assert compute("sum", [(0, 1), (1, 1)], table) == 10
